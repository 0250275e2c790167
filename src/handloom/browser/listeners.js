// Notes which elements listen to clicks, before any script of the page runs: many pages show nothing else to tell a button by.
(() => {
  const kinds = new Set(['click', 'mousedown', 'mouseup', 'pointerdown', 'dblclick', 'touchstart', 'change']);
  const heard = new WeakSet();
  Object.defineProperty(window, Symbol.for('handloom.heard'), { value: heard });
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (kinds.has(kind) && this instanceof Element) heard.add(this);
    return add.call(this, kind, ...rest);
  };
})();
