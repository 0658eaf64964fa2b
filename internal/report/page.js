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
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => text.includes(w));
    }
    for (const one of section.querySelectorAll('figure')) one.hidden = rows[one.dataset.m].hidden;
    for (const group of section.querySelectorAll('.group')) {
      const shown = group.querySelectorAll('[data-m]:not([hidden])').length;
      group.hidden = shown === 0;
      group.querySelector('small').textContent = shown;
    }
    const groups = section.querySelectorAll('tbody.group:not([hidden])').length;
    const found = rows.filter((row) => !row.hidden).length;
    const says = [input.value && `${found || 'none'} of the ${rows.length} on this page`, groups > 1 && `in ${groups} groups`];
    output.textContent = says.filter(Boolean).join(' ');
  };
  input.addEventListener('input', show);
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
