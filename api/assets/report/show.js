// Shows the report that stands in the text area of this document, in its place.
//
// It is the only script that the document's policy lets begin, here and in every frame that the report might make: scripts of the
// report are run by it, after it has taken away what policies do not cover. Nothing of the report has run before, so whatever
// is kept here is as the browser made it.
"use strict";
(() => {
  const { apply } = Reflect;
  const { charCodeAt, indexOf, lastIndexOf, slice, startsWith, toLowerCase } = String.prototype;
  const { createElement, createElementNS } = Document.prototype;
  const { createDocument } = DOMImplementation.prototype;
  const { append } = Element.prototype;
  const { preventDefault, stopImmediatePropagation } = Event.prototype;
  const evaluate = window.eval;
  const cdn = "https://cdn.bokeh.org/";

  // Elements that reach a server though no policy lets them, or that begin a document of their own.
  const leaving = [
    "base", "embed", "fencedframe", "frame", "frameset", "iframe", "link", "meta", "object", "portal",
  ];
  // Elements that take text. Some have a window of their own, whose keys cause no events in the report.
  const fields = ["datalist", "input", "keygen", "listbox", "select", "selectlist", "selectmenu", "textarea"];
  const refused = [...leaving, ...fields];
  // Interfaces that reach a server though no policy lets them, those that make such elements, and those that
  // tell about text and keys.
  const interfaces = [
    "Sanitizer",
    "RTCPeerConnection", "webkitRTCPeerConnection", "mozRTCPeerConnection", "RTCIceTransport", "RTCIceGatherer",
    "XSLTProcessor", "PresentationRequest",
    "EditContext", "EyeDropper", "IdleDetector", "PerformanceEventTiming", "PerformanceObserver", "RemotePlayback",
    "UserActivation", "XRSystem",
    "HTMLBaseElement", "HTMLEmbedElement", "HTMLFencedFrameElement", "HTMLFrameElement", "HTMLFrameSetElement",
    "HTMLIFrameElement", "HTMLLinkElement", "HTMLMetaElement", "HTMLObjectElement", "HTMLPortalElement",
  ];

  for (let index = 0; index < interfaces.length; index += 1) delete window[interfaces[index]];

  // Methods that make elements of a text, two of which take a sanitizer of the report and are exempt from
  // trusted types. Future ones will be named alike, so all are deleted except those that trusted types
  // cover and one that only reads.
  const kept = ["innerHTML", "outerHTML", "insertAdjacentHTML", "getHTML"];
  const isNode = (constructor) => constructor === Node || constructor?.prototype instanceof Node;
  for (const name of Object.getOwnPropertyNames(window)) {
    const constructor = Object.getOwnPropertyDescriptor(window, name).value;
    if (typeof constructor !== "function" || !isNode(constructor)) continue;
    for (const holder of [constructor, constructor.prototype])
      for (const member of Object.getOwnPropertyNames(holder))
        if (member.includes("HTML") && !kept.includes(member)) delete holder[member];
  }
  // Members that tell of text and keys, also by what they refuse before a key was pressed.
  const timings = ["eventCounts", "interactionCount", "getEntries", "getEntriesByName", "getEntriesByType"];
  for (const member of timings) delete Performance.prototype[member];
  for (const member of ["scheduling", "userActivation", "vibrate", "xr"]) delete Navigator.prototype[member];
  delete HTMLElement.prototype.editContext;
  delete HTMLMediaElement.prototype.remote;
  delete MessageEvent.prototype.userActivation;
  // Libraries ask whether an element is one of these. None is.
  for (const name of ["HTMLDataListElement", "HTMLInputElement", "HTMLSelectElement", "HTMLTextAreaElement"])
    window[name] = class {};

  // The name of an element, without a prefix, in small letters.
  const localName = (name) =>
    apply(toLowerCase, apply(slice, name, [apply(lastIndexOf, name, [":"]) + 1]), []);

  const isRefused = (name) => {
    const local = localName(name);
    for (let index = 0; index < refused.length; index += 1) if (refused[index] === local) return true;
    return false;
  };

  // The name that counts is the one that the browser read: it splits a name with several colons in its own way. An
  // element does nothing before it has attributes and is part of a document.
  const getterOf = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).get;
  const localNameOf = getterOf(Element.prototype, "localName");
  const documentElementOf = getterOf(Document.prototype, "documentElement");
  const nameOf = (element) => apply(localNameOf, element, []);

  Document.prototype.createElement = function (name, options) {
    const element = apply(createElement, this, [name, options]);
    const local = nameOf(element);
    return isRefused(local) ? apply(createElement, this, [`x-${local}`, options]) : element;
  };
  Document.prototype.createElementNS = function (namespace, name, options) {
    const element = apply(createElementNS, this, [namespace, name, options]);
    const local = nameOf(element);
    return isRefused(local) ? apply(createElementNS, this, [namespace, `x-${local}`, options]) : element;
  };
  // The element of a new document may be adopted by this one.
  DOMImplementation.prototype.createDocument = function (namespace, name, doctype) {
    const made = apply(createDocument, this, [namespace, name, doctype]);
    const element = apply(documentElementOf, made, []);
    const local = element === null ? "" : nameOf(element);
    return isRefused(local) ? apply(createDocument, this, [namespace, `x-${local}`, doctype]) : made;
  };
  // It inserts what its caller chose into editable parts, and copies to the reader's clipboard.
  delete Document.prototype.execCommand;
  // These remove all listeners of the window, and with them those below.
  for (const member of ["open", "write", "writeln"]) delete Document.prototype[member];
  const listen = (type, listener) => window.addEventListener(type, listener, true);
  const conceal = (event) => apply(stopImmediatePropagation, event, []);
  const prevent = (event) => {
    apply(preventDefault, event, []);
    conceal(event);
  };
  // Text that is pasted or dropped into editable parts becomes elements. Outside of the frame, the browser
  // opens an address that is dropped.
  for (const type of ["paste", "dragstart", "drop"]) listen(type, prevent);

  // Nothing can be typed, so that no report asks for a password. Keys that scroll or copy work, unseen by the report.
  const hasAny = (prototype, properties) => {
    const getters = properties.map((property) => getterOf(prototype, property));
    return (event) => {
      for (let index = 0; index < getters.length; index += 1) if (apply(getters[index], event, [])) return true;
      return false;
    };
  };
  const keyOf = getterOf(KeyboardEvent.prototype, "key");
  const isCommand = hasAny(KeyboardEvent.prototype, ["ctrlKey", "metaKey"]);
  for (const type of ["beforeinput", "textInput"]) listen(type, prevent);
  listen("keydown", (event) => {
    const key = apply(keyOf, event, []);
    if (key.length === 1 && key !== " " && !isCommand(event)) prevent(event);
    else conceal(event);
  });
  for (const type of ["keypress", "keyup", "input", "change", "compositionend"]) listen(type, conceal);
  // Text of an input method cannot be prevented, and is inserted at the selection right after the update. Taking
  // the selection away runs nothing of the report.
  const selection = window.getSelection();
  const { removeAllRanges } = Selection.prototype;
  for (const type of ["compositionstart", "compositionupdate"])
    listen(type, (event) => {
      conceal(event);
      apply(removeAllRanges, selection, []);
    });

  // No sandbox covers a click with a key or with another button, nor the menu of a link, which open an address in a
  // window of its own or save what is there.
  const isSpecial = hasAny(MouseEvent.prototype, ["button", "ctrlKey", "shiftKey", "altKey", "metaKey"]);
  for (const type of ["click", "auxclick"])
    listen(type, (event) => {
      if (isSpecial(event)) prevent(event);
    });
  listen("contextmenu", prevent);

  // The same for what is made of a text. Where a text declares entities, elements may hide in them.
  // A sign that no name follows is text, and the next one may begin an element.
  const endsName = (code) => code <= 32 || code === 47 || code === 60 || code === 62;
  const harmless = (html) => {
    let written = "";
    let from = 0;
    for (;;) {
      const at = apply(indexOf, html, ["<", from]);
      if (at < 0) return written + apply(slice, html, [from]);
      const begin = at + 1;
      const after = apply(toLowerCase, apply(slice, html, [begin, begin + 2]), []);
      if (after === "!e") throw new TypeError("a report declares no entities");
      let end = begin;
      while (end < html.length && !endsName(apply(charCodeAt, html, [end]))) end += 1;
      const name = apply(slice, html, [begin, end]);
      written += apply(slice, html, [from, begin]);
      written += isRefused(name) ? `x-${localName(name)}` : name;
      from = end;
    }
  };

  // Browsers that know of no trusted types have the policy of the document and the names above.
  let isFirst = true;
  window.trustedTypes?.createPolicy("default", {
    createHTML: (text) => (isFirst ? text : harmless(text)),
    createScript: (text) => text,
    createScriptURL: (text) => {
      if (apply(startsWith, text, [cdn])) return text;
      throw new TypeError("a report has scripts of its own and of Bokeh");
    },
  });

  const external = (source) =>
    new Promise((resolve) => {
      const script = apply(createElement, document, ["script"]);
      script.onload = resolve;
      script.onerror = resolve;
      script.src = source;
      apply(append, document.documentElement, [script]);
    });

  const types = ["", "text/javascript", "application/javascript"];

  const run = async (scripts) => {
    for (const script of scripts) {
      try {
        if (script.source === null) evaluate(script.text);
        else await external(script.source);
      } catch (error) {
        console.error(error);
      }
    }
    // For scripts that wait for what was over before they began.
    for (const [target, name] of [[document, "DOMContentLoaded"], [window, "load"]])
      target.dispatchEvent(new Event(name));
  };

  // All elements of a tree, those of templates included.
  const elements = (root) =>
    [...root.querySelectorAll("*")].flatMap((element) =>
      element.localName === "template" ? [element, ...elements(element.content)] : [element]);

  document.addEventListener("DOMContentLoaded", (event) => {
    event.stopImmediatePropagation();
    const text = document.getElementById("report")?.textContent ?? "";
    const report = new DOMParser().parseFromString(text, "text/html");
    isFirst = false;
    for (const element of elements(report)) if (isRefused(element.localName)) element.remove();
    const scripts = [...report.querySelectorAll("script")]
      .filter((script) => types.includes(script.type.trim().toLowerCase()))
      .map((script) => ({ source: script.getAttribute("src"), text: script.textContent }));
    document.documentElement.replaceWith(document.adoptNode(report.documentElement));
    void run(scripts);
  }, { once: true });
})();
