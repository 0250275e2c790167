// A page as lines of text in reading order; what can be used carries a number, which stays with its element and is never given again.
// Takes {next, full}: the first free number, and whether to go beyond the viewport. Gives {lines, next, frames, broken, above, below, title}.
({ next, full }) => {
  const KEY = Symbol.for('handloom.ids');
  if (!window[KEY]) Object.defineProperty(window, KEY, { value: { ids: new WeakMap(), elements: new Map() } });
  const known = window[KEY];
  const heard = window[Symbol.for('handloom.heard')] || new WeakSet();
  const SILENT = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'OPTION', 'OPTGROUP', 'DEFS', 'METADATA']);
  const ROLES = new Set(['button', 'link', 'checkbox', 'radio', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'switch', 'slider', 'spinbutton', 'combobox', 'textbox', 'searchbox', 'treeitem']);
  const SHAPES = new Set(['circle', 'rect', 'ellipse', 'polygon', 'path', 'line', 'image', 'polyline']);
  const MOST_LINES = 3000, MOST_NAME = 120, MOST_OPTIONS = 25;
  const lines = [], frames = [];
  let line = '';

  // Words of the page must not look like a number of ours.
  const plain = (text) => text.replace(/\[(\d+)\]/g, '($1)').replace(/\u0001/g, '');
  const squeeze = (text) => plain(text).replace(/\s+/g, ' ').trim();
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 3) + '...' : text);
  // A long value by its beginning and its end.
  const ends = (text) => (text.length > 400 ? text.slice(0, 300) + ' [...] ' + text.slice(-100) : text);
  const flush = () => {
    const text = line.replace(/[ \t]+/g, ' ').trim();
    line = '';
    if (text && text !== '|' && lines.length < MOST_LINES) lines.push(text);
  };
  const add = (text) => { line += text; };
  const idOf = (element) => {
    let id = known.ids.get(element);
    if (id === undefined) {
      id = next++;
      known.ids.set(element, id);
      known.elements.set(id, new WeakRef(element));
    }
    return id;
  };

  const screen = { top: 0, left: 0, bottom: innerHeight, right: innerWidth };
  const meets = (box, clip) => box.bottom > clip.top && box.top < clip.bottom && box.right > clip.left && box.left < clip.right;
  const within = (box, clip) => ({ top: Math.max(box.top, clip.top), left: Math.max(box.left, clip.left), bottom: Math.min(box.bottom, clip.bottom), right: Math.min(box.right, clip.right) });

  const kindOf = (element, style, parentStyle) => {
    const tag = element.tagName.toLowerCase();
    const role = element.getAttribute('role');
    if (tag === 'input') {
      const type = element.type;
      if (type === 'hidden') return '';
      if (['submit', 'button', 'reset', 'image'].includes(type)) return 'button';
      if (['checkbox', 'radio', 'file'].includes(type)) return type;
      if (type === 'range') return 'slider';
      return type === 'text' ? 'textbox' : type;
    }
    if (tag === 'select' || tag === 'textarea' || tag === 'summary') return tag;
    if (role && ROLES.has(role)) return role;
    if (tag === 'button') return 'button';
    if (tag === 'a' && (element.hasAttribute('href') || heard.has(element) || element.onclick)) return 'link';
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return 'editor';
    if (tag === 'body' || tag === 'html' || tag === 'label' || tag === 'form' || tag === 'fieldset') return '';
    if (tag === 'canvas') return 'canvas';
    const own = element.onclick || element.onmousedown || heard.has(element) || element.draggable === true && tag !== 'img' && tag !== 'a' || element.classList.contains('ui-draggable') || element.classList.contains('ui-sortable-handle') || element.classList.contains('ui-selectee');
    const points = style.cursor === 'pointer' && parentStyle && parentStyle.cursor !== 'pointer';
    const focusable = element.hasAttribute('tabindex') && element.tabIndex >= 0;
    const moves = /^(move|grab|[a-z]+-resize)$/.test(style.cursor) && parentStyle && parentStyle.cursor !== style.cursor;
    if (SHAPES.has(tag)) return tag;
    // A list that listens speaks for its items.
    const item = tag === 'li' && element.parentElement && heard.has(element.parentElement) && !holdsUsable(element);
    if (!own && !points && !focusable && !moves && !item) return '';
    return tag;
  };

  const labelled = (element) => {
    const by = (element.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean);
    const said = by.map((id) => element.getRootNode().getElementById?.(id)?.textContent || '').join(' ');
    return squeeze(said || element.getAttribute('aria-label') || '');
  };
  const labelOf = (element) => {
    const own = labelled(element);
    if (own) return own;
    for (const label of element.labels || []) if (!label.contains(element)) return squeeze(label.innerText || '');
    return squeeze(element.placeholder || element.title || (element.labels?.length ? '' : element.name || element.id || ''));
  };
  const quoted = (text) => (text ? ` "${cut(text, MOST_NAME)}"` : '');

  const place = (element) => {
    const box = element.getBoundingClientRect();
    return `@${Math.round(box.left)},${Math.round(box.top)} ${Math.round(box.width)}x${Math.round(box.height)}`;
  };
  const classOf = (element) => {
    const name = element.getAttribute('class') || '';
    return squeeze(name).split(' ').filter((word) => word && word.length < 25).slice(0, 3).map((word) => '.' + word).join('');
  };
  const colours = {};
  const colour = (value) => {
    if (!(value in colours)) {
      const part = /rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?/.exec(value || '');
      colours[value] = part && part[4] !== '0' ? '#' + [1, 2, 3].map((n) => Number(part[n]).toString(16).padStart(2, '0')).join('') : '';
    }
    return colours[value];
  };
  // What tells something without words from its neighbours.
  const look = (element, style) => {
    const svg = element instanceof SVGElement;
    const tint = svg ? colour(style.fill) || colour(style.stroke) : colour(style.backgroundColor);
    const sides = element.tagName === 'polygon' ? ` ${squeeze(element.getAttribute('points') || '').split(/[ ,]+/).length / 2} corners` : '';
    const id = element.id && element.id.length < 30 ? ` #${squeeze(element.id)}` : '';
    return [id + ` ${classOf(element)}`.trimEnd(), tint, place(element)].filter(Boolean).join(' ').replace(/^ */, ' ') + sides;
  };

  const states = (element) => {
    const found = [];
    const aria = (name) => element.getAttribute('aria-' + name);
    if (element.disabled || aria('disabled') === 'true') found.push('disabled');
    if (element.checked && /checkbox|radio/.test(element.type) || aria('checked') === 'true') found.push('checked');
    if (aria('selected') === 'true') found.push('selected');
    if (aria('expanded') === 'true') found.push('expanded');
    if (aria('expanded') === 'false') found.push('collapsed');
    if (element.readOnly && 'value' in element && element.type !== 'range') found.push('readonly');
    return found.length ? ' ' + found.join(' ') : '';
  };
  const focused = (element) => (element.getRootNode().activeElement === element && element !== document.body ? ' focused' : '');

  const describe = (element, kind, style) => {
    const id = `[${idOf(element)}]`;
    const tag = element.tagName;
    if (tag === 'SELECT') {
      const options = [...element.options];
      const shown = options.slice(0, MOST_OPTIONS).map((option) => cut(squeeze(option.label || option.text), 60)).join(' | ');
      const more = options.length > MOST_OPTIONS ? ` | ... ${options.length - MOST_OPTIONS} more` : '';
      const value = [...element.selectedOptions].map((option) => squeeze(option.label || option.text)).join(', ');
      return `${id}select${element.multiple ? ' multiple' : ''}${quoted(labelOf(element))} (value="${cut(value, MOST_NAME)}" options: ${shown}${more})${states(element)}`;
    }
    if (tag === 'INPUT' || tag === 'TEXTAREA') {
      if (kind === 'button') return `${id}button${quoted(squeeze(element.value || labelOf(element) || element.alt || (element.type === 'submit' ? 'Submit' : '')))}${states(element)}`;
      if (kind === 'checkbox' || kind === 'radio') return `${id}${kind}${quoted(labelOf(element))}${states(element)}`;
      const secret = element.type === 'password';
      const value = element.value ? ` value="${secret ? '*'.repeat(element.value.length) : ends(plain(element.value))}"` : '';
      const range = kind === 'slider' || kind === 'number' ? [['min', element.min], ['max', element.max]].map(([name, at]) => (at ? ` ${name}=${plain(at)}` : '')).join('') : '';
      return `${id}${kind}${quoted(labelOf(element))}${value}${range}${states(element)}${focused(element)}`;
    }
    const now = element.getAttribute('aria-valuenow');
    if (now !== null) return `${id}${kind}${quoted(labelOf(element))} value=${cut(squeeze(now), 40)}${states(element)}`;
    if (kind === 'editor') return `${id}editor${quoted(labelOf(element))}${focused(element)} value="${cut(plain(element.innerText.trim()), 600)}"`;
    return '';
  };

  const blocky = (display) => !/^(inline|contents|ruby|none|table-cell)/.test(display);
  const holdsUsable = (element) => heard.has(element) && element.querySelector(':scope > li') !== null || element.querySelector('a[href],button,input,select,textarea,[role],[onclick],[tabindex]:not([tabindex="-1"]),iframe,summary') !== null || [...element.querySelectorAll('*')].slice(0, 300).some((inner) => heard.has(inner));

  const walk = (node, clip, parentStyle, inUsable, depth) => {
    if (lines.length >= MOST_LINES || depth > 600) return;
    if (node.nodeType === Node.TEXT_NODE) {
      if (!/\S/.test(node.data)) { if (node.data) add(' '); return; }
      if (!full && clip.partial) {
        const range = document.createRange();
        range.selectNodeContents(node);
        const boxes = [...range.getClientRects()];
        if (boxes.length && !boxes.some((box) => meets(box, clip))) return;
        if (boxes.length > 3 && node.data.length > 600) { add(seen(node, clip)); return; }
      }
      if (parentStyle && parentStyle.visibility !== 'visible') return;
      if (parentStyle && parentStyle.whiteSpace.startsWith('pre') && node.data.includes('\n')) {
        for (const part of plain(node.data).split('\n')) { add(part); flush(); }
      } else add(plain(node.data).replace(/\s+/g, ' '));
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || SILENT.has(node.tagName.toUpperCase())) return;
    const element = node;
    const tag = element.tagName.toUpperCase();
    if (tag === 'BR') { flush(); return; }
    const style = getComputedStyle(element);
    if (style.display === 'none') return;
    const box = element.getBoundingClientRect();
    const sized = box.width > 0 && box.height > 0;
    if (!full && sized && style.display !== 'contents' && !meets(box, clip) && tag !== 'BODY' && tag !== 'HTML') {
      if (style.overflow !== 'visible' || box.top > clip.bottom + 400 || box.bottom < clip.top - 400 || !element.querySelector('*')) return;
    }
    const block = blocky(style.display);
    const hidden = style.visibility !== 'visible' || style.opacity === '0' && !('value' in element);
    if (style.opacity === '0' && !('value' in element)) return;
    if (block || tag === 'TR') flush();
    if (tag === 'TD' || tag === 'TH' || style.display === 'table-cell') { if (line.trim()) add(' | '); }
    if (/^H[1-6]$/.test(tag)) add('#'.repeat(Number(tag[1])) + ' ');
    let inner = full ? clip : { ...clip, partial: box.top < clip.top || box.bottom > clip.bottom || box.left < clip.left || box.right > clip.right };
    if (style.overflowX !== 'visible' || style.overflowY !== 'visible') {
      const room = element.scrollHeight - element.clientHeight;
      const scrolls = /auto|scroll/.test(style.overflowY) && room > 4 && element.clientHeight > 20 && tag !== 'BODY' && tag !== 'HTML' && tag !== 'TEXTAREA';
      if (scrolls) { add(` [${idOf(element)}]scroll (scrolled ${Math.round(element.scrollTop)} of ${room}) `); flush(); }
      if (!full && tag !== 'BODY' && tag !== 'HTML') inner = { ...within(box, inner), partial: true };
    }
    if (tag === 'IFRAME' || tag === 'FRAME') {
      if (full || meets(box, clip)) { flush(); const id = idOf(element); frames.push(id); lines.push(`\u0001${id}`); }
      return;
    }
    if (tag === 'IMG' || tag === 'svg') {
      const alt = squeeze(element.alt || labelled(element) || '');
      if (alt && !inUsable && kindOf(element, style, parentStyle) === '') add(` (image: ${cut(alt, 80)}) `);
    }
    if (tag === 'VIDEO' || tag === 'AUDIO') add(` (${tag.toLowerCase()}) `);
    const kind = hidden ? '' : kindOf(element, style, parentStyle);
    let marked = false;
    if (kind && (sized || style.display === 'contents' || SHAPES.has(element.tagName)) && (full || meets(box, clip))) {
      const told = describe(element, kind, style);
      if (told) {
        add(` ${told} `);
        if (block) flush();
        return;
      }
      const words = squeeze(element instanceof HTMLElement ? element.innerText || '' : element.textContent || '');
      const deep = element.childElementCount > 0 && holdsUsable(element);
      const big = box.width * box.height > 0.5 * innerWidth * innerHeight;
      if (!deep) {
        const name = labelled(element) || words || squeeze(element.title || element.querySelector('img')?.alt || '');
        const shape = SHAPES.has(element.tagName) || kind === 'canvas';
        if (name && !shape) {
          const list = element.tagName === 'LI' || kind === 'treeitem';
          add(` [${idOf(element)}]${kind}${quoted(name)}${states(element)}${mark(element)} `);
        } else if (!inUsable || shape || heard.has(element) || element.onclick || /^(A|BUTTON)$/.test(element.tagName)) {
          const bare = kind === 'link' && element.getAttribute('href') ? ` ->${cut(squeeze(element.getAttribute('href')), 60)}` : '';
          add(` [${idOf(element)}]${kind}${shape && element.tagName !== 'canvas' && element.querySelector('title') ? quoted(squeeze(element.querySelector('title').textContent)) : ''}${look(element, style)}${bare}${states(element)}${mark(element)} `);
        }
        if (block || tag === 'LI') flush();
        return;
      }
      if (!big && (!inUsable || words !== inUsable)) { add(` [${idOf(element)}]${kind}${states(element)}: `); marked = true; }
      inUsable = words;
    }
    const root = element.shadowRoot;
    if (root) for (const child of root.childNodes) walk(child, inner, style, inUsable, depth + 1);
    const children = tag === 'SLOT' && element.assignedNodes().length ? element.assignedNodes() : root ? [] : element.childNodes;
    for (const child of children) walk(child, inner, style, inUsable, depth + 1);
    if (block || tag === 'TR' || marked) flush();
  };
  // A selected thing often differs by its class alone.
  const mark = (element) => {
    const name = element.getAttribute('class') || '';
    const word = /(?:^|[\s-])(active|selected|checked|current|clicked|highlighted)(?=\s|$)/.exec(name);
    return word && !element.hasAttribute('aria-selected') ? ` ${word[1]}` : '';
  };
  // The part of a long text that can be seen, by its words.
  const seen = (node, clip) => {
    const range = document.createRange();
    const find = (wanted) => {
      let low = 0, high = node.data.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        range.setStart(node, middle);
        range.setEnd(node, middle + 1);
        const box = range.getBoundingClientRect();
        if (wanted(box)) high = middle; else low = middle + 1;
      }
      return low;
    };
    const first = find((box) => box.bottom > clip.top), last = find((box) => box.top >= clip.bottom);
    return plain(node.data.slice(first, last + 1)).replace(/\s+/g, ' ');
  };

  // What breaks in the hands of the page's scripts is told with the numbers that were given till then.
  let broken = '';
  try {
    if (document.body) walk(document.body, { ...screen, partial: true }, null, '', 0);
    flush();
  } catch (error) { broken = `${error}` || 'broken'; }
  const scroller = document.scrollingElement || document.documentElement;
  const top = scroller ? Math.round(scroller.scrollTop) : 0;
  const below = scroller ? Math.max(0, Math.round(scroller.scrollHeight - top - innerHeight)) : 0;
  return { lines, next, frames, broken, above: top, below, title: document.title };
}
