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
      const rows = [...table.tBodies[0].rows];
      const key = (r) => r.cells[column].dataset.v ?? '';
      rows.sort((a, b) => {
        const x = key(a), y = key(b);
        if ((x === '') !== (y === '')) return x === '' ? 1 : -1;
        const n = th.dataset.text ? x.localeCompare(y) : Number(x) - Number(y);
        return sign * n || a.dataset.m - b.dataset.m;
      });
      table.tBodies[0].append(...rows);
    });
  });
}
for (const filter of document.querySelectorAll('.filter')) {
  filter.hidden = false;
  const section = filter.closest('section');
  const all = [...section.querySelectorAll('tbody tr, .cards figure')];
  const input = filter.querySelector('input'), output = filter.querySelector('output');
  input.addEventListener('input', () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const one of all) {
      const text = one.textContent.toLowerCase();
      one.hidden = !words.every((w) => text.includes(w));
      if (!one.hidden) shown++;
    }
    output.textContent = input.value ? `${shown} of ${all.length}` : '';
  });
}
