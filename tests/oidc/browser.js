// A browser as seen by servers: it keeps cookies per origin, and sends the origin of its forms.

/** A page open in the browser. */
class Page {
  constructor(url, status, text, headers) {
    Object.assign(this, { url, status, text, headers });
  }

  /** The action and the hidden fields of the page's form. */
  get form() {
    const [, action] = /<form[^>]* action="([^"]+)"/.exec(this.text) ?? [];
    const fields = [...this.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
    return { action: new URL(action, this.url), fields: fields.map(([, name, value]) => [name, value]) };
  }
}

export class Browser {
  #cookies = new Map();

  /** Opens a URL and follows redirects, up to one for which `follow` returns false. */
  async open(url, { follow = () => true, form } = {}) {
    for (let steps = 0; steps < 20; steps += 1) {
      const { origin } = new URL(url);
      const jar = this.#jar(origin);
      const headers = new Headers({ accept: "text/html, */*;q=0.8" });
      if (jar.size) headers.set("cookie", [...jar].map((cookie) => cookie.join("=")).join("; "));
      if (form) headers.set("origin", origin);
      const answer = await fetch(url, {
        redirect: "manual",
        headers,
        ...(form && { method: "POST", body: new URLSearchParams(form) }),
      });
      for (const line of answer.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
        const expires = /expires=([^;]+)/i.exec(line);
        const gone = /max-age=0/i.test(line) || (expires && new Date(expires[1]) < new Date());
        if (gone) jar.delete(name);
        else jar.set(name, value);
      }
      const location = answer.headers.get("location");
      if (!location) return new Page(url, answer.status, await answer.text(), answer.headers);
      await answer.body?.cancel();
      url = new URL(location, url).href;
      form = undefined;
      if (!follow(url)) return new Page(url, answer.status, "", answer.headers);
    }
    throw new Error(`${url} leads nowhere`);
  }

  /** Submits the form of a page, with these fields added. */
  submit(page, typed, options = {}) {
    const { action, fields } = page.form;
    return this.open(action.href, { ...options, form: [...fields, ...Object.entries(typed)] });
  }

  cookie(url, name) {
    return this.#jar(new URL(url).origin).get(name);
  }

  setCookie(url, name, value) {
    this.#jar(new URL(url).origin).set(name, value);
  }

  // Browsers ignore ports in cookies, but then servers of one machine would share them.
  #jar(origin) {
    if (!this.#cookies.has(origin)) this.#cookies.set(origin, new Map());
    return this.#cookies.get(origin);
  }
}
