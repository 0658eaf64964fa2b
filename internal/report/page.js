'use strict';
for (const section of document.querySelectorAll('section.comparison')) {
  const curves = section.querySelectorAll('.curve');
  const rows = section.querySelectorAll('[data-m]:not(.curve)');
  let pinned = null;
  const show = (m) => {
    for (const c of curves) {
      c.classList.toggle('on', c.dataset.m === m);
      if (c.dataset.m === m) c.parentNode.append(c);
    }
    for (const svg of section.querySelectorAll('svg.chart')) svg.classList.toggle('picked', m !== null);
    for (const r of rows) r.classList.toggle('pinned', m !== null && r.dataset.m === pinned);
  };
  for (const r of rows) {
    r.addEventListener('mouseenter', () => show(r.dataset.m));
    r.addEventListener('mouseleave', () => show(pinned));
    r.addEventListener('click', () => { pinned = pinned === r.dataset.m ? null : r.dataset.m; show(pinned); });
  }
  for (const box of section.querySelectorAll('input.intervals')) {
    box.closest('label').hidden = false;
    box.addEventListener('change', () => section.classList.toggle('ranges', box.checked));
  }
  for (const tabs of section.querySelectorAll('.tabs')) {
    tabs.hidden = false;
    for (const p of section.querySelectorAll('.alone')) p.remove();
    const panels = section.querySelectorAll('[data-panel]');
    const pick = (name) => {
      for (const p of panels) p.hidden = p.dataset.panel !== name;
      for (const b of tabs.children) b.setAttribute('aria-pressed', b.dataset.set === name);
    };
    for (const b of tabs.children) b.addEventListener('click', () => pick(b.dataset.set));
    pick(tabs.children[0].dataset.set);
  }
}
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((th, column) => {
    if (!th.dataset.sort) return;
    const button = document.createElement('button');
    button.append(...th.childNodes);
    th.append(button);
    button.addEventListener('click', () => {
      const first = th.dataset.sort;
      const way = th.getAttribute('aria-sort') === first ? (first === 'ascending' ? 'descending' : 'ascending') : first;
      for (const h of heads) h.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', way);
      const sign = way === 'ascending' ? 1 : -1;
      const key = (r) => r.cells[column].dataset.v ?? (th.dataset.text ? r.cells[column].textContent : '');
      const order = (a, b) => {
        const x = key(a), y = key(b);
        if ((x === '') !== (y === '')) return x === '' ? 1 : -1;
        const n = th.dataset.text ? x.localeCompare(y) : Number(x) - Number(y);
        return sign * n || a.dataset.m - b.dataset.m;
      };
      for (const body of table.tBodies) body.append(...[...body.querySelectorAll('[data-m]')].sort(order));
    });
  });
}
// A spreadsheet must not take a text for a formula.
const cellText = (text) => (/^[\s"]*[=+\-@]/.test(text) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/.test(text) ? "'" + text : text);
for (const button of document.querySelectorAll('[data-save]')) {
  button.closest('.filter').hidden = false;
  const table = button.closest('.sheet, section').querySelector('table');
  const content = () => {
    const rows = [...table.querySelectorAll('[data-m]')].filter((row) => !row.hidden).map((row) => [...row.cells].map((cell) => cell.dataset.v ?? cell.textContent));
    if (button.dataset.save.endsWith('.txt')) return rows.map((row) => row[0] + '\n').join('');
    const heads = [...table.tHead.rows[0].cells].map((th) => th.textContent);
    return [heads, ...rows].map((row) => row.map((text) => '"' + cellText(text).replaceAll('"', '""') + '"').join() + '\r\n').join('');
  };
  button.addEventListener('click', () => {
    const link = document.createElement('a');
    link.download = button.dataset.save;
    link.href = 'data:text/plain;charset=utf-8,' + encodeURIComponent(content());
    link.click();
  });
}
for (const filter of document.querySelectorAll('.filter:has(input)')) {
  filter.hidden = false;
  const section = filter.closest('section');
  const lists = [...section.querySelectorAll('tbody, .cards')].map((list) => [list, [...list.children]]);
  const rows = lists[0][1]; // each picture belongs to one of these rows
  const [input, by] = filter.querySelectorAll('input, select'), output = filter.querySelector('output');
  const only = document.createElement('select');
  only.append(new Option('all', ''));
  for (const option of by ? [...by.options].slice(1) : []) {
    const names = new Set(rows.map((row) => row.cells[option.value].textContent).filter(Boolean));
    if (names.size < 2 && rows.every((row) => row.cells[option.value].textContent)) continue;
    const group = document.createElement('optgroup');
    group.label = option.text;
    group.append(...[...names].sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).map((name) => new Option(name, option.value + ' ' + name)));
    only.append(group);
  }
  if (only.length > 1) {
    const label = document.createElement('label');
    label.append('show ', only);
    by.closest('label').after(label);
  }
  const points = [...section.querySelectorAll('.point[data-m]')];
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    const [column, name] = only.value.split(/ (.*)/s);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => text.includes(w)) || (column && row.cells[column].textContent !== name);
    }
    for (const point of points) point.classList.toggle('dim', rows[point.dataset.m].hidden);
    for (const one of section.querySelectorAll('figure')) one.hidden = rows[one.dataset.m].hidden;
    for (const group of section.querySelectorAll('.group')) {
      const shown = group.querySelectorAll('[data-m]:not([hidden])').length;
      group.hidden = shown === 0;
      group.querySelector('small').textContent = shown;
    }
    const groups = section.querySelectorAll('tbody.group:not([hidden])').length;
    const found = rows.filter((row) => !row.hidden).length;
    const says = [(input.value || only.value) && `${found || 'none'} of the ${rows.length} on this page`, groups > 1 && `in ${groups} groups`];
    output.textContent = says.filter(Boolean).join(' ');
  };
  input.addEventListener('input', show);
  only.addEventListener('change', show);
  by?.addEventListener('change', () => {
    for (const h of section.querySelectorAll('[aria-sort]')) h.removeAttribute('aria-sort');
    for (const group of section.querySelectorAll('.group')) group.remove();
    for (const [list, all] of lists) {
      list.append(...all);
      for (const [name, some] of by.value ? Map.groupBy(all, (one) => rows[one.dataset.m].cells[by.value].textContent) : []) {
        const group = list.cloneNode();
        group.className += ' group';
        group.innerHTML = list.matches('tbody') ? '<tr><th colspan="99" scope="rowgroup"><span></span> <small></small></th></tr>' : '<h3><span></span> <small></small></h3>';
        group.querySelector('span').textContent = name;
        group.append(...some);
        list.before(group);
      }
    }
    show();
  });
}
// A picture of the page by the name of its input.
const pictures = new Map([...document.querySelectorAll('.cards figure')].map((one) => [one.querySelector('b').textContent, one.querySelector('img')]));
for (const button of document.querySelectorAll('[data-save="clusters.csv"]')) {
  const [head, ...rows] = [...button.closest('.sheet').querySelectorAll('tr')];
  const column = [...head.cells].findIndex((th) => th.textContent === 'most typical inputs');
  for (const row of rows) {
    const found = row.cells[column].textContent.split(', ').map((key) => pictures.get(key)?.cloneNode()).filter(Boolean);
    if (found.length === 0) continue;
    const line = document.createElement('div');
    line.className = 'pictures-of';
    line.append(...found);
    row.cells[column].prepend(line);
  }
}
// A map: pointing at an input, or going to it with arrow keys, shows what the table says of it.
for (const map of document.querySelectorAll('.map')) {
  const svg = map.querySelector('svg.chart'), spot = map.querySelector('.spot');
  const table = map.closest('section').querySelector('table');
  const heads = [...table.tHead.rows[0].cells].map((th) => th.textContent);
  const rows = new Map([...table.querySelectorAll('tr[data-m]')].map((row) => [row.dataset.m, row]));
  const points = [...svg.querySelectorAll('.point')].map((mark) => ({ mark, x: mark.x.baseVal.value, y: mark.y.baseVal.value }));
  let current = null;
  const pick = (point) => {
    if (!point || point === current) return;
    current?.mark.classList.remove('on');
    rows.get(current?.mark.dataset.m)?.classList.remove('pinned');
    current = point;
    point.mark.classList.add('on');
    point.mark.parentNode.append(point.mark);
    const row = rows.get(point.mark.dataset.m);
    row.classList.add('pinned');
    const sheet = table.closest('.card');
    sheet.scrollTop = row.offsetTop - sheet.clientHeight / 2;
    const [key, ...values] = [...row.cells].map((cell) => cell.textContent);
    const name = document.createElement('b');
    name.textContent = key;
    const picture = pictures.get(key)?.cloneNode();
    spot.replaceChildren(...(picture ? [picture] : []), name, values.map((text, i) => (text && `, ${text.startsWith(heads[i + 1]) ? '' : heads[i + 1] + ' '}${text}`)).join(''));
    spot.hidden = false;
  };
  const nearest = (distance, limit) => {
    let best = null;
    for (const point of points) {
      const d = point.mark.classList.contains('dim') ? Infinity : distance(point);
      if (d < limit) [best, limit] = [point, d];
    }
    return best;
  };
  const point = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    pick(nearest((p) => Math.hypot(p.x - at.x, p.y - at.y), 25));
  };
  svg.addEventListener('pointermove', point);
  svg.addEventListener('pointerdown', point);
  svg.tabIndex = 0;
  svg.setAttribute('role', 'application');
  svg.setAttribute('aria-label', 'map of inputs; arrow keys go from one to the next');
  svg.addEventListener('keydown', (event) => {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (dx === undefined) return;
    event.preventDefault();
    const from = current ?? { x: 0, y: 0 };
    pick(nearest((p) => {
      const along = (p.x - from.x) * dx + (p.y - from.y) * dy, across = Math.abs((p.x - from.x) * dy) + Math.abs((p.y - from.y) * dx);
      return along > 0 || !current ? Math.abs(along) + 2 * across : Infinity;
    }, Infinity));
  });
}
