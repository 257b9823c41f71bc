//! The plugin's source as served.

use std::collections::BTreeMap;

use harness::TestApp;
use reqwest::{Method, header};

#[tokio::test]
async fn the_plugin_needs_no_token_and_carries_its_own_sources() {
    let app = TestApp::start().await;
    let bundle = include_str!("../../python/src/galvo/plugin/bundle.py");
    let telemetry = include_str!("../../python/src/galvo/plugin/telemetry.py");
    for path in ["/api/v2/analytics/preload", "//api/v2/analytics/preload"] {
        let response = app.anonymous(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert!(
            response.headers()[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/x-python"),
            "{path}"
        );
        let served = response.text().await.unwrap();
        let (first, rest) = served.split_once('\n').unwrap();
        assert_eq!(rest, bundle, "{path}");
        let literal = first.strip_prefix("SOURCES = ").unwrap();
        let sources = serde_json::from_str::<BTreeMap<String, String>>(literal).unwrap();
        assert_eq!(sources["bundle"], bundle, "{path}");
        assert_eq!(sources["telemetry"], telemetry, "{path}");
    }
    app.stop().await;
}
