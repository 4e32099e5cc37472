// The small parts that every screen is made of: marks, numbers, times, sections, tables.
import { h } from './vendor/preact.mjs';

export const S = 1000, M = 60 * S, H = 60 * M, D = 24 * H;

// The page's clock: the instance's, so that a browser whose own is wrong counts down right. And the viewer's zone.
export const clock = { ahead: 0, utc: false, now: () => Date.now() + clock.ahead };

// A state is told by shape first and colour second. 12 by 12.
const round = (c, more) => [h('circle', { cx: 6, cy: 6, r: 4, fill: 'none', stroke: c, 'stroke-width': 1.6 }), more];
const line = (c, d, width) => h('path', { d, fill: 'none', stroke: c, 'stroke-width': width });
const shapes = {
  waiting: ['wait', (c) => round(c)],
  flight: ['wait', (c) => round(c, h('path', { d: 'M6 2a4 4 0 0 1 0 8z', fill: c }))],
  done: ['done', (c) => h('circle', { cx: 6, cy: 6, r: 4.6, fill: c })],
  late: ['late', (c) => h('path', { d: 'M6 1.4 11 10.4H1z', fill: c })],
  dead: ['dead', (c) => line(c, 'M2.2 2.2l7.6 7.6M9.8 2.2 2.2 9.8', 2.2)],
  held: ['held', (c) => line(c, 'M3.4 2v8M8.6 2v8', 2.4)],
  act: ['ink2', (c) => line(c, 'M1.5 6h8M6.5 3l3 3-3 3', 1.6)],
  gone: ['ink3', (c) => line(c, 'M2 6h8', 2)],
  refused: ['dead', (c) => round(c, line(c, 'M3.2 8.8l5.6-5.6', 1.6))],
  unsure: ['late', (c) => line(c, 'M6 1.2 10.8 6 6 10.8 1.2 6z', 1.6)],
};

export function Mark({ is, size = 12, word }) {
  const named = word ? { role: 'img', 'aria-label': word } : { 'aria-hidden': 'true' }, [hue, draw] = shapes[is];
  return h('svg', { class: 'mark', width: size, height: size, viewBox: '0 0 12 12', ...named }, draw(`var(--${hue})`));
}

// Numbers keep their digits; a thin space sets thousands apart.
export const num = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, '\u2009');
export const count = (n, what) => `${num(n)} ${what}${n === 1 ? '' : 's'}`;
export const sum = (list) => list.reduce((a, b) => a + b, 0);

// span says a length of time in at most two units: 4m 12s, 3h 05m, 12d 4h.
export function span(ms) {
  const v = Math.abs(ms), two = (n) => String(Math.floor(n)).padStart(2, '0');
  if (v < S) return `${v < 10 ? +v.toFixed(1) : Math.round(v)}ms`;
  if (v < M) return `${Math.floor(v / S)}s`;
  if (v < H) return `${Math.floor(v / M)}m ${two(v % M / S)}s`;
  if (v < D) return `${Math.floor(v / H)}h ${two(v % H / M)}m`;
  return `${Math.floor(v / D)}d ${Math.floor(v % D / H)}h`;
}

// units makes the letters lighter than the digits.
export const units = (text) => text.split(/([a-z]+)/).map((t) => (/[a-z]/.test(t) ? h('span', { class: 'u' }, t) : t));

// at says a moment, in ms or as text, in the viewer's zone, and its date where that is far away.
export function at(moment, { date, seconds } = {}) {
  const d = new Date(moment), zone = clock.utc ? 'UTC' : '', two = (n) => String(n).padStart(2, '0');
  const part = (name) => two(d[`get${zone}${name}`]());
  const time = ['Hours', 'Minutes', ...seconds ? ['Seconds'] : []].map(part).join(':');
  if (!(date ?? Math.abs(d - clock.now()) > 20 * H)) return time;
  return `${two(d[`get${zone}Month`]() + 1)}-${part('Date')} ${time}`;
}

// during says when a step of a chart lies: one of a minute is a moment, and a longer one is no better known.
export const during = (from, step, between = '–') => (step > M
  ? `${at(from, { date: step > H || undefined })}${between}${at(Date.parse(from) + step)}` : at(from));

// Rel is a moment beside now: in 4m 12s, 3m 20s ago; with how: late, +3m 20s; for, the length alone; next, never ago.
export function Rel({ time, how }) {
  const left = Date.parse(time) - clock.now(), ms = how === 'next' ? Math.max(left, 0) : left;
  const long = Math.abs(ms) < S ? '0s' : span(ms), late = how === 'late' && ms < 0;
  const text = how === 'for' ? long : ms >= 0 ? `in ${long}` : late ? `+${long}` : `${long} ago`;
  return h('time', { class: `rel${late && ms < -2 * S ? ' is-late' : ''}`, datetime: time, title: time }, units(text));
}

// When is a moment and where it lies beside now; Ruler draws that, on a logarithmic scale to 30 days on each side.
export const When = ({ time, late }) => h('span', { class: 'nowrap' }, h('b', null, at(time)), ' ',
  h(Rel, { time, how: late && 'late' }));

export function Ruler({ time, mark }) {
  const left = Date.parse(time) - clock.now(), most = Math.log10(1 + 30 * D / S);
  const place = (ms) => 84 + Math.sign(ms) * Math.min(Math.log10(1 + Math.abs(ms) / S) / most, 1) * 76;
  const hue = `var(--${shapes[mark][0]})`;
  return h('svg', { class: 'ruler', width: 168, height: 14, viewBox: '0 0 168 14', 'aria-hidden': 'true' },
    h('path', { class: 'grid', d: 'M8 7h152' }),
    [-D, -H, -M, M, H, D].map((ms) => h('path', { class: 'grid', d: `M${place(ms)} 5v4` })),
    h('path', { d: `M84 7H${place(left)}`, stroke: hue, 'stroke-width': 1.6 }),
    h('path', { class: 'now', d: 'M84 1v12' }),
    h('svg', { x: place(left) - 5, y: 2, width: 10, height: 10, viewBox: '0 0 12 12' }, shapes[mark][1](hue)));
}

// shown is how a message's state is drawn and said.
export function shown({ state, why, parked }) {
  if (state === 'waiting' && (parked || why?.word === 'paused')) return ['held', 'waiting'];
  return { waiting: ['waiting', 'waiting'], ready: ['waiting', 'ready'], in_flight: ['flight', 'in flight'],
    delivered: ['done', 'delivered'], dead: ['dead', 'dead'], rejected: ['refused', 'rejected'],
  }[state] ?? ['gone', state];
}

// Facts are names and what they have.
export const Facts = ({ rows }) => h('dl', { class: 'facts' }, rows.map(([name, value], i) =>
  h('div', { class: 'line', key: i }, h('dt', null, name), h('dd', null, value))));

export const Field = ({ label, children }) => h('label', { class: 'field' }, h('span', null, label), children);

export const link = (to, ...children) => h('a', { href: `#/${to}` }, children);

// to is the address of a message, and list leads to messages that are alike.
export const to = (uid) => `message?${new URLSearchParams({ id: uid })}`;
export const list = (query, ...children) => link(`messages?${new URLSearchParams(query)}`, children);

// Name is what somebody else has named. It may be of any script and length, and disturbs no text around it.
export const Name = ({ children }) => h('bdi', { class: 'name', title: children }, children);

export const Section = ({ title, note, children }) => h('section', { class: 'section' },
  h('header', null, h('h2', null, title), note && h('p', { class: 'note' }, note)), children);
export const Button = ({ children, kind = '', ...rest }) =>
  h('button', { type: 'button', class: `button ${kind}`, ...rest }, children);
export const Notice = ({ mark = 'late', children }) => h('div', { class: 'notice' }, h(Mark, { is: mark, size: 14 }),
  h('p', null, children));
export const Ghost = () => h('div', { class: 'ghost', 'aria-busy': 'true' }, Array.from({ length: 8 }, () => h('i')));

// Table is a table: a row's first cell is its header, and on a phone each row becomes a block.
export function Table({ head, rows, caption }) {
  return h('div', { class: 'scroll' }, h('table', null, h('caption', { class: 'unseen' }, caption),
    h('thead', null, h('tr', null, head.map(([text, cls]) => h('th', { scope: 'col', class: cls }, text)))),
    h('tbody', null, rows.map(({ key, cells }) => h('tr', { key }, cells.map((cell, i) => {
      const [label, cls] = head[i], text = h('span', null, cell);
      return i ? h('td', { class: `${cls ?? ''}${cell === '–' ? ' none' : ''}`, 'data-label': label }, text)
        : h('th', { scope: 'row', class: cls }, text);
    }))))));
}
