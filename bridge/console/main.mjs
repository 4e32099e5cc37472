// The shell: where the address leads, what is asked while it is shown, navigation, and the dialog for a token.
import { createRef, h, render } from './vendor/preact.mjs';
import { Feed, token } from './calls.mjs';
import { Button, clock, Ghost, Mark, Name, Notice, num, S, span, sum } from './parts.mjs';
import { Due, feeds as dueFeeds } from './s-due.mjs';
import { Overview, feeds as overviewFeeds } from './s-overview.mjs';
import { Stuck, feeds as stuckFeeds } from './s-stuck.mjs';

const screens = [
  { path: 'overview', title: 'Overview', Screen: Overview, feeds: overviewFeeds },
  { path: 'due', title: 'Falls due', Screen: Due, feeds: dueFeeds, count: (o) => num(o.messages.waiting) },
  { path: 'stuck', title: 'Stuck', Screen: Stuck, feeds: stuckFeeds, count: (o) => {
    const n = sum((o.overdue ?? []).map((x) => x.count));
    return [n > 0 && h(Mark, { is: 'held', size: 9 }), num(n)];
  } },
];
const me = ['me', {}, Infinity], overview = ['overview', {}, 2 * S]; // every screen shows them

const feeds = new Map(); // by what they ask
const view = { hold: false, focus: null, asks: null, theme: sessionStorage.getItem('theme') ?? 'auto' };
clock.utc = sessionStorage.getItem('utc') === 'on';

function feed(name, query = {}, every = 0) {
  const key = JSON.stringify([name, query]);
  if (!feeds.has(key)) feeds.set(key, new Feed(name, query, every));
  return feeds.get(key);
}

function where() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  const screen = screens.find((s) => s.path === path) ?? screens[0], query = new URLSearchParams(search);
  return { screen, query, asked: [me, overview, ...screen.feeds(query)].map((f) => feed(...f)) };
}

// go changes parameters of the address, and may then focus an element of the new page.
function go(change, focus) {
  const { screen, query } = where();
  for (const [name, value] of Object.entries(change)) value === null ? query.delete(name) : query.set(name, value);
  view.focus = focus;
  location.hash = `/${screen.path}?${query}`;
  show(); // at once: the next key goes to what has the focus then
}

// beat moves the countdowns, and asks what is due to be asked unless nobody looks.
async function beat() {
  show();
  if (view.hold || document.hidden || document.querySelector('dialog[open]')) return;
  await Promise.all(where().asked.filter((f) => f.due).map(async (f) => {
    const before = f.data?.messages?.waiting;
    await f.ask();
    const { waiting } = f.data?.messages ?? {};
    // Where few wait, each is seen to come and go. To ask of few costs little.
    if (before !== waiting && waiting < 1000) for (const other of where().asked) if (other.name !== 'me') other.soon();
    if (f.name === 'me' && f.data) {
      const ahead = Date.parse(f.data.now) - (f.began + f.answered) / 2;
      clock.ahead = Math.abs(ahead) < S ? 0 : ahead; // it is no better known than that
    }
    show();
  }));
}

// enter takes another token, or none, and asks everything anew.
function enter(text) {
  token.set(text);
  for (const f of feeds.values()) f.renew();
  feed(...me).data = null;
  beat();
}

// leave forgets the token and all that it has shown.
function leave() {
  feeds.clear();
  enter('');
}

function show() {
  const { screen, query, asked } = where(), [{ data: who }, o] = asked, wide = innerWidth > 860;
  // How long nobody has answered, once that is more than a hiccup.
  const silent = Date.now() - o.answered, away = o.problem && o.problem.status !== 403 && silent > 5 * S ? silent : 0;
  const bad = { stop: '✕ ', warn: '▲ ' }[away ? 'stop' : o.data?.level] ?? '';
  const width = Math.min(document.documentElement.clientWidth - (wide ? 196 + 64 : 32), 1240);
  const wrong = asked.find((f) => f.problem && !f.data)?.problem;
  document.documentElement.dataset.theme = view.theme;
  document.title = `${bad}${screen.title} – tarry ${who?.namespace ?? ''}`;
  render([
    h('a', { class: 'skip', href: '#main', onClick: skip }, 'To the content'),
    h(Nav, { screen, o: o.data, who }),
    h('main', { id: 'main', tabindex: -1, class: away ? 'stale' : '' },
      h(Strip, { away, answered: o.answered }),
      o.data ? h(screen.Screen, { feed, width, wide, away, query, go, who, ask })
        : wrong ? h(Notice, { mark: 'dead' }, wrong.message) : h(Ghost)),
    asked.some((f) => f.problem?.status === 401) ? h(Login) : view.asks && h(Ask, view.asks),
  ], document.body);
  if (dialog.current && !dialog.current.open) dialog.current.showModal();
  if (view.focus) document.querySelector(view.focus)?.focus();
  view.focus = null;
}

function skip(e) {
  e.preventDefault();
  document.getElementById('main').focus();
}

function Nav({ screen, o, who }) {
  return h('nav', { class: 'nav', 'aria-label': 'screens' },
    h('a', { class: 'brand', href: '#/overview', 'aria-label': `tarry ${who?.namespace ?? ''}, overview` },
      h('svg', { width: 22, height: 22, viewBox: '0 0 22 22', 'aria-hidden': 'true' },
        h('circle', { cx: 4, cy: 11, r: 2.6, class: 'doneF' }), h('path', { d: 'M11 2v18', class: 'now' }),
        h('circle', { cx: 18, cy: 11, r: 2.2, class: 'open' })),
      h('b', null, 'tarry'), ' ', h('span', null, who?.namespace)),
    h('ul', null, screens.map(({ path, title, count }) => h('li', { key: path },
      h('a', { href: `#/${path}`, 'aria-current': path === screen.path ? 'page' : undefined },
        h('span', null, title), count && o?.messages && h('span', { class: 'n' }, count(o)))))),
    h('div', { class: 'me' },
      who && h('p', null, h('b', null, h(Name, null, who.name)),
        who.open ? ', who needs no token' : who.operate ? ' may operate' : who.read ? ' may read' : ' may not read'),
      who && h('p', null, h(Name, null, who.instance), ' ', who.version),
      h('p', null, h('a', { href: 'docs' }, 'API'), token.get() && [' ',
        h('button', { type: 'button', class: 'plain', onClick: leave }, 'leave')])));
}

// Strip says how fresh the page is, and lets it stand still. Choices last as long as the tab.
function Strip({ away, answered }) {
  const keep = (name, value) => {
    sessionStorage.setItem(name, value);
    show();
  };
  const button = (label, onClick, rest) => h('button', { type: 'button', class: 'plain', onClick, ...rest }, label);
  return h('header', { class: 'strip-top' }, h('div', { class: 'live' },
    h(Mark, { is: away ? 'unsure' : view.hold ? 'held' : 'done', size: 10 }),
    h('span', null, away ? 'no answer' : view.hold && answered ? `of ${span(Date.now() - answered)} ago` : 'live'),
    button('hold', () => { view.hold = !view.hold; show(); }, { 'aria-pressed': String(view.hold) }),
    button('UTC', () => { clock.utc = !clock.utc; keep('utc', clock.utc ? 'on' : 'off'); },
      { 'aria-pressed': String(clock.utc) }),
    button(view.theme, () => {
      view.theme = { auto: 'dark', dark: 'light', light: 'auto' }[view.theme];
      keep('theme', view.theme);
    }, { 'aria-label': `colours: ${view.theme}` })));
}

// ask opens a dialog that says what an act will do, and then what it did. Nothing is asked of the API meanwhile.
function ask(what) {
  view.asks = what;
  show();
}

function Ask({ title, body, button, go: act, result, busy }) {
  const close = () => {
    ask(null);
    for (const f of feeds.values()) f.soon();
    beat();
  };
  const submit = async () => {
    const what = { ...view.asks, busy: true };
    ask(what);
    ask({ ...what, result: await act().then((text) => [h(Mark, { is: 'done' }), ' ', text],
      (problem) => [h(Mark, { is: 'dead', word: 'failed' }), ' ', problem.message]) });
  };
  return h('dialog', { class: 'dialog', 'aria-labelledby': 'ask', ref: dialog, onClose: close },
    h('h2', { id: 'ask' }, title), h('p', { role: 'status' }, result ?? body),
    h('footer', null, h(Button, { onClick: close }, result ? 'Close' : 'Back'),
      !result && h(Button, { kind: 'primary', disabled: busy, onClick: submit }, button)));
}

// Login asks for a token over the page, which stays.
const dialog = createRef(), field = createRef();
function Login() {
  const submit = (e) => {
    e.preventDefault();
    enter(field.current.value.trim());
  };
  return h('dialog', { class: 'dialog', 'aria-labelledby': 'login', ref: dialog, onCancel: (e) => e.preventDefault() },
    h('h2', { id: 'login' }, 'A token, please'),
    h('p', { class: 'note' },
      token.get() ? 'This token is not known here.' : 'This tarry asks callers for a token. It stays in this tab.'),
    h('form', { onSubmit: submit },
      h('label', { class: 'field' }, h('span', null, 'Token'),
        h('input', { ref: field, type: 'password', required: true, autocomplete: 'off', spellcheck: false })),
      h('footer', null, h(Button, { kind: 'primary', type: 'submit' }, 'Enter'))));
}

addEventListener('hashchange', beat);
addEventListener('resize', show);
document.addEventListener('visibilitychange', beat);
setInterval(beat, S);
beat();
