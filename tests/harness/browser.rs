//! A browser as servers see it: it keeps cookies, does not follow redirects, and sends the origin of its
//! forms.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Mutex,
};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header, redirect::Policy};

use crate::TestApp;

/// A browser with one server open.
pub struct Browser {
    client: Client,
    address: String,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// A response to a browser.
pub struct Page {
    /// The status.
    pub status: StatusCode,
    /// The address it redirects to.
    pub location: Option<String>,
    /// The `Set-Cookie` headers.
    pub set_cookies: Vec<String>,
    /// The headers.
    pub headers: header::HeaderMap,
    /// The HTML.
    pub html: String,
}

impl Page {
    async fn of(response: Response) -> Self {
        let headers = response.headers().clone();
        let texts = |name: header::HeaderName| {
            let values = headers.get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        Self {
            status: response.status(),
            location: texts(header::LOCATION).pop(),
            set_cookies: texts(header::SET_COOKIE),
            headers,
            html: response.text().await.unwrap(),
        }
    }

    /// The value of a hidden field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.html.split_once(&format!("name=\"{name}\" value=\""))?;
        rest.split('"').next()
    }
}

impl Browser {
    /// A browser without cookies.
    #[must_use]
    pub fn new(app: &TestApp) -> Self {
        Self::at(&app.url(""), Ipv4Addr::LOCALHOST.into())
    }

    /// A browser that connects to a server from an address of this machine.
    #[must_use]
    pub fn at(server: &str, from: IpAddr) -> Self {
        let client = Client::builder().redirect(Policy::none()).local_address(from).build().unwrap();
        Self { client, address: server.to_owned(), cookies: Mutex::default() }
    }

    /// A request with the cookies, and without the other headers that a browser sends.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let cookies = self.cookies.lock().unwrap();
        if cookies.is_empty() {
            return request;
        }
        let cookies: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        request.header(header::COOKIE, cookies.join("; "))
    }

    /// Opens a page.
    pub async fn open(&self, path: &str) -> Page {
        self.keep(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Sends a custom request, and keeps the cookies of the response.
    pub async fn take(&self, request: RequestBuilder) -> Page {
        self.keep(request.send().await.unwrap()).await
    }

    /// Sends a form from a page of the server.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.submit_from(&self.address, path, fields).await
    }

    /// Sends a form from a page of any server.
    pub async fn submit_from(&self, origin: &str, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let request = self
            .request(Method::POST, path)
            .header(header::ORIGIN, origin)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.finish());
        self.keep(request.send().await.unwrap()).await
    }

    /// Signs in, which must succeed.
    pub async fn sign_in(&self, name: &str, password: &str) {
        let page = self.submit("/sign-in", &[("username", name), ("password", password)]).await;
        assert_eq!(
            (page.status, page.location.as_deref()),
            (StatusCode::SEE_OTHER, Some("/")),
            "{}",
            page.html
        );
    }

    /// The CSRF token of the session.
    pub async fn csrf(&self) -> String {
        let answer = self.request(Method::GET, "/api/v1/session").send().await.unwrap();
        let body: serde_json::Value = answer.json().await.unwrap();
        body["csrf_token"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    }

    /// The value of a cookie.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.lock().unwrap().get(name).cloned()
    }

    /// Sets a cookie, as only the user of a browser can.
    pub fn set_cookie(&self, name: &str, value: &str) {
        self.cookies.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    async fn keep(&self, response: Response) -> Page {
        let page = Page::of(response).await;
        let mut cookies = self.cookies.lock().unwrap();
        for line in &page.set_cookies {
            let (name, rest) = line.split_once('=').unwrap();
            if line.contains("Max-Age=0") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned());
            }
        }
        drop(cookies);
        page
    }
}
