// The shell: where the address leads, what is asked while it is shown, navigation, and the dialog for a token.
import { Component, createRef, h, render } from './vendor/preact.mjs';
import { Feed, token } from './calls.mjs';
import { Button, clock, Facts, Field, Ghost, Mark, Name, Notice, num, S, span, sum } from './parts.mjs';
import { Due, feeds as dueFeeds } from './s-due.mjs';
import { Failed, feeds as failedFeeds } from './s-failed.mjs';
import { Message, feeds as messageFeeds } from './s-message.mjs';
import { Found, foundFeeds, Messages, feeds as messagesFeeds } from './s-messages.mjs';
import { Actions, feeds as actionsFeeds } from './s-actions.mjs';
import { Cluster, feeds as clusterFeeds } from './s-cluster.mjs';
import { Overview, feeds as overviewFeeds } from './s-overview.mjs';
import { Pull, feeds as pullFeeds } from './s-pull.mjs';
import { Rejected, feeds as rejectedFeeds } from './s-rejected.mjs';
import { Stuck, feeds as stuckFeeds } from './s-stuck.mjs';
import { Topics, feeds as topicsFeeds } from './s-topics.mjs';

const marked = (is, n) => [n > 0 && h(Mark, { is, size: 9 }), num(n)];

// The screens; one with of has no place of its own in the navigation, one with key is reached by g and that.
const screens = [
  { path: 'overview', title: 'Overview', Screen: Overview, feeds: overviewFeeds, key: 'o' },
  { path: 'due', title: 'Falls due', Screen: Due, feeds: dueFeeds, key: 'd',
    count: (o) => num(o.messages.waiting - sum((o.overdue ?? []).map((x) => (x.held === 'pull' ? 0 : x.count)))) },
  { path: 'stuck', title: 'Stuck', Screen: Stuck, feeds: stuckFeeds, key: 's',
    count: (o) => marked('held', sum((o.overdue ?? []).map((x) => x.count))) },
  { path: 'failed', title: 'Failed', Screen: Failed, feeds: failedFeeds, key: 'f',
    count: (o) => marked('dead', o.messages.dead) },
  { path: 'messages', title: 'Messages', Screen: Messages, feeds: messagesFeeds, key: 'm', apart: true },
  { path: 'topics', title: 'Topics', Screen: Topics, feeds: topicsFeeds, key: 't' },
  { path: 'rejected', title: 'Rejected', Screen: Rejected, feeds: rejectedFeeds, key: 'r',
    count: (o) => o.intake && marked('refused', o.intake.rejects) },
  { path: 'pull', title: 'Pull and webhooks', Screen: Pull, feeds: pullFeeds, key: 'p',
    count: (o) => num(o.messages.leased) },
  { path: 'cluster', title: 'Cluster', Screen: Cluster, feeds: clusterFeeds, key: 'c', apart: true },
  { path: 'actions', title: 'Actions', Screen: Actions, feeds: actionsFeeds, key: 'a' },
  { path: 'message', title: 'Message', Screen: Message, feeds: messageFeeds, of: 'messages' },
  { path: 'found', title: 'Found', Screen: Found, feeds: foundFeeds, of: 'messages' },
];
const me = ['me', {}, Infinity], overview = ['overview', {}, 2 * S]; // every screen shows them

const feeds = new Map(); // by what they ask
const view = { hold: false, focus: null, asks: null, theme: sessionStorage.getItem('theme') ?? 'auto',
  keys: sessionStorage.getItem('keys') !== 'off' };
clock.utc = sessionStorage.getItem('utc') === 'on';

function feed(name, query = {}, every = 0, values = {}) {
  const key = JSON.stringify([name, query, values]);
  if (!feeds.has(key)) feeds.set(key, new Feed(name, query, every, values));
  return feeds.get(key);
}

function where() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  const screen = screens.find((s) => s.path === path) ?? screens[0], query = new URLSearchParams(search);
  return { screen, query, asked: [me, overview, ...screen.feeds(query, feed)].map((f) => feed(...f)) };
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
    // Where few wait, each is seen to come and go. To ask of few costs little. What viewers share is up to 2 s old.
    if (before !== waiting && waiting < 1000) {
      for (const other of where().asked) if (other.every < Infinity) other.soon(other.every > 5 * S ? 2.5 * S : 0);
    }
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

// updated reports whether two answers in a row are of another version than the first one, which this page is of. Behind
// a proxy every other answer may be, while one instance after the other is updated.
let first, other = { n: 0 };
function updated(o) {
  first ??= o.version;
  if (other.answer !== o) other = { answer: o, n: o.version === first ? 0 : other.n + 1 };
  return other.n > 1;
}

// Fallible says that its screen cannot be drawn, where the page would be empty else, and tries again with each beat.
class Fallible extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  componentWillReceiveProps() {
    this.setState({ error: null });
  }

  render({ children }, { error }) {
    return error ? h(Notice, { mark: 'dead' }, `This page cannot show what it was told: ${error.message}. `
      + 'The command line can. Please report it.') : children;
  }
}

function show() {
  const { screen, query, asked } = where(), [{ data: who }, o] = asked, wide = innerWidth > 860;
  // How long nobody has answered, once that is more than a hiccup.
  const silent = Date.now() - o.answered, away = o.problem && o.problem.status !== 403 && silent > 5 * S ? silent : 0;
  // What some of the page is from, likewise.
  const last = Math.min(...asked.filter((f) => f.data && f.problem && f.problem.status !== 404).map((f) => f.answered));
  const old = Date.now() - last > 5 * S ? last : 0;
  const bad = { stop: '✕ ', warn: '▲ ' }[away ? 'stop' : o.data?.level] ?? '';
  const width = Math.min(document.documentElement.clientWidth - (wide ? 196 + 64 : 32), 1240);
  const wrong = asked.find((f) => f.problem && !f.data)?.problem;
  document.documentElement.dataset.theme = view.theme;
  document.title = `${bad}${screen.title} – tarry ${who?.namespace ?? ''}`;
  render([
    h('a', { class: 'skip', href: '#main', onClick: skip }, 'To the content'),
    h(Nav, { screen, o: o.data, who }),
    h('main', { id: 'main', tabindex: -1, class: old ? 'stale' : '' },
      h(Strip, { away, old, answered: o.answered, query }),
      o.data && updated(o.data) && h(Notice, null, `tarry was updated to ${o.data.version}: reload this page.`),
      o.data ? h(Fallible, { key: screen.path }, h(screen.Screen, { feed, width, wide, away, query, go, who, ask }))
        : wrong ? h(Notice, { mark: 'dead' }, wrong.message) : h(Ghost)),
    asked.some((f) => f.problem?.status === 401) ? h(Login) : view.asks && h(Ask, view.asks),
  ], document.body);
  if (dialog.current && !dialog.current.open) dialog.current.showModal();
  if (view.shown !== screen.path) {
    const here = document.querySelector('.nav [aria-current]'); // on a phone the navigation is wider than the screen
    here.closest('ul').scrollLeft = here.offsetLeft - 8;
  }
  view.shown = screen.path;
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
    h('ul', null, screens.filter((s) => !s.of).map(({ path, title, count, apart }) => h('li', { key: path,
      class: apart ? 'apart' : '' },
    h('a', { href: `#/${path}`, 'aria-current': path === (screen.of ?? screen.path) ? 'page' : undefined },
      h('span', null, title), count && o?.messages && h('span', { class: 'n' }, count(o)))))),
    h('div', { class: 'me' },
      who && h('p', null, h('b', null, h(Name, null, who.name)),
        who.open ? ', who needs no token' : who.operate ? ' may operate' : who.read ? ' may read' : ' may not read'),
      who && h('p', null, h(Name, null, who.instance), ' ', who.version),
      h('p', null, h('a', { href: 'docs' }, 'API'), ' ',
        h('button', { type: 'button', class: 'plain', 'aria-pressed': String(view.keys), onClick: switchKeys,
          title: '? lists them' },
        'keys'),
        token.get() && [' ', h('button', { type: 'button', class: 'plain', onClick: leave }, 'leave')])));
}

function switchKeys() {
  view.keys = !view.keys;
  sessionStorage.setItem('keys', view.keys ? 'on' : 'off');
  show();
}

// press is what single keys do, unless they are switched off.
const keys = [['/', 'search'], ...screens.filter((s) => s.key).map((s) => [`g ${s.key}`, s.title]),
  ['arrows, Home, End', 'the bars of a chart'], ['Esc', 'closes a dialog'], ['?', 'this list']];
let went = 0;
function press(e) {
  const field = e.target.closest?.('input, select, textarea, [contenteditable]');
  if (!view.keys || field || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  const to = e.timeStamp - went < 2 * S && screens.find((s) => s.key === e.key);
  went = e.key === 'g' ? e.timeStamp : 0;
  if (e.key === '/') {
    e.preventDefault();
    document.getElementById('search').focus();
  } else if (to) {
    location.hash = `/${to.path}`;
  } else if (e.key === '?') {
    ask({ title: 'Keys', body: h(Facts, { rows: keys }) });
  }
}

// search leads to the message of a uid, or to what has the text as an id, a key or a topic.
function search(e) {
  e.preventDefault();
  document.activeElement.blur();
  const text = new FormData(e.target).get('text').trim();
  if (text) location.hash = /^t-[0-9a-z]{16}$/.test(text) ? `/message?${new URLSearchParams({ id: text })}`
    : `/found?${new URLSearchParams({ text })}`;
}

// Strip says how fresh the page is, and lets it stand still. Choices last as long as the tab.
function Strip({ away, old, answered, query }) {
  const keep = (name, value) => {
    sessionStorage.setItem(name, value);
    show();
  };
  const button = (label, onClick, rest) => h('button', { type: 'button', class: 'plain', onClick, ...rest }, label);
  return h('header', { class: 'strip-top' }, h('form', { class: 'search', role: 'search', onSubmit: search },
    h('input', { id: 'search', name: 'text', type: 'search', 'aria-label': 'search by id, uid, key or topic',
      placeholder: 'id, uid, key or topic', defaultValue: query.get('text') ?? '', maxlength: 255, autocomplete: 'off',
      spellcheck: false }),
    view.keys && h('kbd', { 'aria-hidden': 'true' }, '/')), h('div', { class: 'live' },
    h(Mark, { is: old ? 'unsure' : view.hold ? 'held' : 'done', size: 10 }),
    h('span', null, away ? 'no answer' : old ? `partly ${span(Date.now() - old)} old`
      : view.hold && answered ? `of ${span(Date.now() - answered)} ago` : 'live'),
    button('hold', () => { view.hold = !view.hold; show(); }, { 'aria-pressed': String(view.hold) }),
    button('UTC', () => { clock.utc = !clock.utc; keep('utc', clock.utc ? 'on' : 'off'); },
      { 'aria-pressed': String(clock.utc) }),
    button(view.theme, () => {
      view.theme = { auto: 'dark', dark: 'light', light: 'auto' }[view.theme];
      keep('theme', view.theme);
    }, { 'aria-label': `colours: ${view.theme}` })));
}

// ask opens a dialog that says what an act will do, and then what it did. Nothing is asked of the API meanwhile. With
// instead it takes the place of that dialog, unless somebody has closed it, and says whether it did.
function ask(what, instead) {
  if (instead && view.asks?.id !== instead.id) return false;
  view.asks = what && { id: {}, ...what };
  show();
  return view.asks;
}

// Ask has a form, whose fields go to the act. The act may tell how far it is. After a failure the form is as it was.
function Ask({ title, body, button, go: act, told, result, wrong, busy, typed, kind = 'primary', stop, many }) {
  const close = () => {
    if (!view.asks) return;
    if (!result) stop?.abort();
    ask(null);
    for (const f of feeds.values()) f.soon();
    beat();
  };
  const submit = async (e) => {
    e.preventDefault();
    const what = { ...view.asks, wrong: null, busy: true }, values = Object.fromEntries(new FormData(e.target));
    if (typed && values.typed !== typed) {
      ask({ ...what, busy: false, wrong: 'This is not what is to be typed.' }, what);
      return;
    }
    ask(what, what);
    try {
      const result = await act(values, (told) => ask({ ...what, told }, what));
      ask({ ...what, busy: false, result: many ? result : [h(Mark, { is: 'done' }), ' ', result] }, what);
    } catch (problem) {
      ask({ ...what, busy: false, wrong: problem.shown ?? problem.message }, what);
    }
  };
  // What is stopped still tells how far it came.
  const cancel = (e) => {
    if (!busy || !stop) return;
    e.preventDefault();
    stop.abort();
  };
  return h('dialog', { class: 'dialog', 'aria-labelledby': 'ask', ref: dialog, onClose: close, onCancel: cancel },
    h('h2', { id: 'ask' }, title),
    h('form', { onSubmit: submit },
      h('div', { hidden: Boolean(result || told) }, body,
        typed && h(Field, { label: ['Type ', h('b', null, h(Name, null, typed)), ' to confirm'] },
          h('input', { name: 'typed', autocomplete: 'off', spellcheck: false }))),
      h('div', { role: 'status' }, result ?? told, wrong && [h(Mark, { is: 'dead', word: 'failed' }), ' ', wrong]),
      h('footer', null, busy && stop ? h(Button, { key: 'stop', onClick: cancel }, 'Stop')
        : h(Button, { key: 'close', onClick: close }, result || !button ? 'Close' : 'Back'),
        !result && button && h(Button, { kind, type: 'submit', disabled: busy }, button))));
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
      h(Field, { label: 'Token' },
        h('input', { ref: field, type: 'password', required: true, autocomplete: 'off', spellcheck: false })),
      h('footer', null, h(Button, { kind: 'primary', type: 'submit' }, 'Enter'))));
}

addEventListener('keydown', press);
addEventListener('beforeunload', (e) => view.asks?.busy && view.asks.stop && e.preventDefault());
addEventListener('hashchange', () => {
  scrollTo(0, 0);
  for (const f of where().asked) if (f.name !== 'me') f.soon();
  beat();
});
addEventListener('resize', show);
document.addEventListener('visibilitychange', beat);
setInterval(beat, S);
beat();
