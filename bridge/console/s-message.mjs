// Message: the whole life of one message, what comes next, what it holds, and every act on it with its true answer.
import { h } from './vendor/preact.mjs';
import { act, ask as read } from './calls.mjs';
import { at, Button, clock, count, Facts, Field, Ghost, link, list, Mark, Name, Notice, num, Rel, Ruler, S, Section,
  shown, span, Table, to, units, When } from './parts.mjs';

const message = (query) => ['get', {}, 2 * S, { id: query.get('id') ?? '' }];
const history = (query) => ['history', {}, 2 * S, { id: query.get('id') ?? '' }];
const why = (query) => ['why', { id: query.get('id') ?? '' }, 5 * S];
// Where no message has the id, the page says where it may be instead.
export const feeds = (query, feed) => [message(query),
  (feed(...message(query)).problem?.status === 404 ? why : history)(query)];

const large = 64 << 10;
const sizeOf = (m) => (m.body_base64 ? Math.floor(m.body_base64.length * 3 / 4) : new Blob([m.body ?? '']).size);
const over = (m) => ['delivered', 'canceled', 'expired'].includes(m.state);

export function Message({ feed, query, go, who, ask, width, wide }) {
  const f = feed(...message(query)), life = feed(...history(query)), m = f.data;
  if (f.problem?.status === 404) return h(Missing, { id: query.get('id'), f: feed(...why(query)) });
  if (!m) return f.problem ? h(Notice, { mark: 'dead' }, f.problem.message) : h(Ghost);
  // What has ended changes no more, and a large body is not read every other second.
  f.every = life.every = over(m) ? Infinity : sizeOf(m) > large ? 20 * S : 2 * S;
  const [mark, word] = shown(m), again = () => { f.renew(); life.renew(); };
  return h('div', { class: 'message' },
    h('div', { class: 'head' },
      h('div', null, h('h1', { class: 'mono' }, h(Name, null, m.id)),
        h('p', { class: 'note' }, list({ topic: m.topic }, h(Name, null, m.topic)),
          m.key && [', key ', list({ key: m.key }, h(Name, null, m.key))],
          m.id === m.uid ? '' : [', ', h('code', null, m.uid), ', ',
            link(`found?${new URLSearchParams({ text: m.id })}`, 'all of this id')])),
      h(Acts, { m, who, ask, again })),
    f.problem && h(Notice, null, f.problem.message),
    h('div', { class: 'stand' },
      h('p', { class: 'big' }, h('span', null, h(Mark, { is: mark, size: 16 }), ' ', word), ' ',
        h('span', { class: 'count' },
          h(Rel, { time: m.ended_at ?? m.lease_until ?? m.due, how: m.ended_at ? '' : 'late' }))),
      h('p', { class: 'lede' }, m.why && [h('b', null, m.ended_at ? 'How it ended: ' : 'Why it is here: '),
        h('bdi', null, m.why.detail || m.why.word),
        m.why.by && !m.ended_at && [', by ', h(Name, null, m.why.by)], '. '],
      m.other && [link(to(m.other), 'The message that it became or was merged into'), '. '],
      'Due ', h('b', null, at(m.due, { date: true })), '.')),
    life.data && h(Strip, { m, life: life.data.history, width }),
    h('div', { class: 'split' },
      h(Section, { title: 'Its life', note: life.data && count(life.data.history.length, 'change')
        + (life.data.earlier ? ', and earlier ones' : '') },
      life.data ? h(Life, { m, life: life.data.history }) : life.problem?.status === 501
        ? h('p', { class: 'note' }, 'Times and reasons of its tries are kept only with a journal, which is off.')
        : life.problem ? h(Notice, null, life.problem.message) : h(Ghost)),
      h('div', null, h(Stands, { m }), h(Content, { m, query, go }),
        h(Section, { title: 'The same by command' }, h('pre', { class: 'first', tabindex: 0 },
          `tarry why ${m.uid}\ntarry history ${m.uid}`)))));
}

// What a change was, by its kind, else by its state.
const kinds = { merged: 'merged', absorbed: 'took in a push', replaced: 'replaced', requeue: 'accepted as a requeue',
  swept: 'claim given back', restored: 'restored', parked: 'set aside', lapsed: 'lease over', released: 'lease ended' };

function looks(c) {
  if (c.kind && kinds[c.kind]) return [c.kind === 'requeue' ? 'waiting' : 'late', kinds[c.kind]];
  if (c.state === 'ready') return ['waiting', 'ready'];
  if (c.state !== 'waiting') return shown(c);
  if (c.version === 1) return ['waiting', 'accepted'];
  return c.attempt ? ['late', `try ${c.attempt} failed`] : ['act', 'changed'];
}

// Life is what was, each with the time since the one before, and what is ahead.
function Life({ m, life }) {
  const rows = life.flatMap((c, i) => {
    const [mark, word] = looks(c), gap = i ? Date.parse(c.at) - Date.parse(life[i - 1].at) : 0;
    const late = c.state === 'delivered' && c.due ? Date.parse(c.at) - Date.parse(c.due) : null;
    return [
      gap >= S && h('li', { class: 'gap', key: `${i} gap` }, h('span', null, units(span(gap)))),
      h('li', { class: c.state === 'ready' ? 'event quiet' : 'event', key: i },
        h('time', { datetime: c.at, title: c.at }, exact(c.at)),
        h('span', { class: 'knot' }, h(Mark, { is: mark, size: 14 })),
        h('div', null, h('p', null, h('b', null, word),
          c.version === 1 && c.due && c.state === 'waiting' && [', due ', at(c.due)],
          late !== null && h('span', { class: late > 2 * S ? 'is-late' : 'ontime' }, ` +${span(Math.max(late, 0))}`),
          c.reason && h('span', { class: 'detail' }, ' ', h('bdi', null, c.reason)),
          c.stream && h('span', { class: 'detail' }, ' ', h(Name, null, c.stream), ` : ${num(c.sequence)}`)),
        h('p', { class: 'by' }, [c.by && ['by ', h(Name, null, c.by)], c.instance && ['at ', h(Name, null, c.instance)],
          c.term && `term ${c.term}`, c.claimed && `begun ${exact(c.claimed)}`].filter(Boolean)
          .flatMap((part, n) => (n ? [', ', part] : [part]))))),
    ];
  });
  return h('ol', { class: 'life' }, rows,
    h('li', { class: 'event nowrow', key: 'now' }, h('time', null, h('b', null, 'now')), h('span', { class: 'knot' }),
      h('div', null, h('p', null, shown(m)[1]))),
    m.state === 'waiting' && Date.parse(m.due) > clock.now() && h('li', { class: 'event', key: 'ahead' },
      h('time', { datetime: m.due }, at(m.due)), h('span', { class: 'knot' }, h(Mark, { is: 'waiting', size: 14 })),
      h('div', null, h('p', null, m.attempt > 1 ? `try ${m.attempt}` : 'falls due', ', ', h(Rel, { time: m.due })))));
}

// exact is a time with seconds and milliseconds.
const exact = (time) => `${at(time)}:${time.slice(17, 23)}`;

// Strip is the whole life on one line.
function Strip({ m, life, width }) {
  const first = Date.parse(life[0]?.at), now = clock.now(), last = Math.max(over(m) || m.state === 'dead' ? 0 : now,
    Date.parse(m.due), ...life.map((c) => Date.parse(c.at)));
  if (!(last > first)) return null;
  const x = (t) => Math.round(8 + (width - 16) * (Math.min(t, last) - first) / (last - first));
  const dots = life.map((c) => [x(Date.parse(c.at)), looks(c)[0]]);
  // Where many lie together, one is drawn.
  const apart = dots.filter(([place], i) => i === 0 || place - dots[i - 1][0] > 4 || i === dots.length - 1);
  const lives = now < last;
  const label = `${count(life.length, 'change')} in ${span(Math.min(now, last) - first)}`
    + (lives ? `; due in ${span(last - now)}` : '');
  return h('svg', { class: 'strip', viewBox: `0 0 ${width} 44`, role: 'img', 'aria-label': label },
    h('path', { class: 'lived', d: `M8 18H${x(now)}` }),
    lives && h('path', { class: 'ahead', d: `M${x(now)} 18H${width - 8}` }),
    apart.map(([place, is]) => h('svg', { x: place - 6, y: 12, width: 12, height: 12 }, h(Mark, { is }))),
    lives && [h('path', { class: 'now', d: `M${x(now)} 2v30` }),
      h('text', { x: x(now), y: 43, class: 'nowtext', 'text-anchor': 'middle' }, 'now')],
    h('text', { x: 2, y: 43 }, (!lives || x(now) > 90) && at(first)),
    h('text', { x: width - 2, y: 43, 'text-anchor': 'end' }, (!lives || x(now) < width - 90) && at(last)));
}

function Stands({ m }) {
  const rows = [['version', num(m.version)], ['try', m.attempt], ['retry', m.retry], ['time to live', m.ttl],
    ['priority', m.priority], ['delivered by', m.deliver ?? 'NATS'],
    ['held by', m.consumer && h(Name, null, m.consumer)],
    ['lease over', m.lease_until && h(Rel, { time: m.lease_until })],
    ['held aside', m.parked && h(Name, null, m.parked)], ['may have been delivered', m.uncertain && 'yes'],
    ['ended', m.ended_at && h(When, { time: m.ended_at })],
    ['last try', m.last_try && h('bdi', null, m.last_try.outcome)], ['kept in', m.durable]];
  return h(Section, { title: 'As it stands' }, h(Facts, { rows: rows.filter(([, value]) => value) }));
}

function Content({ m, query, go }) {
  const has = m.body !== undefined || m.body_base64 !== undefined, all = query.get('all') === 'yes';
  const views = { hidden: null, text, json: pretty, hex }, size = sizeOf(m);
  const view = views[query.get('body')] ? query.get('body') : 'hidden';
  const headers = Object.entries(m.headers ?? {}).flatMap(([name, values]) =>
    values.map((value) => [h(Name, null, name), h('bdi', { class: 'mono' }, value)]));
  const segment = h('div', { class: 'segment', role: 'group', 'aria-label': 'show the body as' },
    Object.keys(views).map((word) => h('button', { type: 'button', key: word, 'aria-pressed': String(word === view),
      onClick: () => go({ body: word === 'hidden' ? null : word, all: null }) }, word)));
  return h(Section, { title: 'Content', note: has && segment },
    headers.length > 0 && h(Facts, { rows: headers }),
    !has ? h('p', { class: 'note' }, m.body_omitted ? 'The body is too large to be shown.' : over(m)
      ? 'Headers and body went with the message.' : 'This token does not show the body.')
      : view === 'hidden' ? h('p', { class: 'note' }, `The body has ${num(size)} ${size === 1 ? 'byte' : 'bytes'}.`)
        : h('pre', { class: 'first', tabindex: 0 }, views[view](m, all ? Infinity : large)),
    view !== 'hidden' && size > large && !all && h('p', { class: 'note' }, `The first ${num(large)} bytes. `,
      h('button', { type: 'button', class: 'plain', onClick: () => go({ all: 'yes' }) }, 'show all')));
}

const bytes = (m) => (m.body_base64 ? Uint8Array.from(atob(m.body_base64), (c) => c.charCodeAt(0))
  : new TextEncoder().encode(m.body));
const text = (m, most) => new TextDecoder().decode(bytes(m).subarray(0, most));

const digits = (n, width) => n.toString(16).padStart(width, '0');

function hex(m, most) {
  const rows = [], all = bytes(m).subarray(0, most);
  for (let i = 0; i < all.length; i += 16) {
    const row = [...all.subarray(i, i + 16)];
    rows.push(`${digits(i, 6)}  ${row.map((b) => digits(b, 2)).join(' ').padEnd(48)} `
      + row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join(''));
  }
  return rows.join('\n');
}

// pretty breaks JSON into lines. Numbers and strings stay as they were sent: nothing is parsed and written anew.
function pretty(m, most) {
  const body = text(m, Infinity);
  try { JSON.parse(body); } catch { return `This is no JSON.\n\n${text(m, most)}`; }
  let out = '', depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [token] of body.matchAll(/"(?:[^"\\]|\\.)*"|[^\s"{}[\],:]+|[{}[\],:]/g)) {
    if ('}]'.includes(token)) {
      depth -= 1;
      out = /[{[]\s*$/.test(out) ? out.trimEnd() + token : out + line() + token;
    } else if ('{['.includes(token)) {
      depth += 1;
      out += token + line();
    } else {
      out += token === ',' ? `,${line()}` : token === ':' ? ': ' : token;
    }
    if (out.length > most) return `${out.slice(0, most)}…`;
  }
  return out;
}

// Acts are those that the state allows. What really came of one is told in the server's words.
function Acts({ m, who, ask, again }) {
  const waits = m.state === 'waiting' || m.state === 'ready', mine = who?.operate || who?.push?.length > 0;
  const on = { id: m.uid }, name = h(Name, null, m.id);
  const asks = (title, button, go, body, kind) => () => ask({ title, button, body, kind,
    go: (values) => go(values).finally(again) });
  // A field of a form has line ends of one kind. A body with others is not edited here.
  const crlf = m.body?.includes('\r\n'), plain = m.body?.replaceAll('\r\n', '\n');
  const small = plain !== undefined && sizeOf(m) <= large && !plain.includes('\r')
    && (!crlf || plain.replaceAll('\n', '\r\n') === m.body);
  const edit = small ? h(Field, { label: 'Body' },
    h('textarea', { name: 'body', rows: 8, defaultValue: plain, spellcheck: false }))
    : h('p', { class: 'note' }, 'Its body is no plain text, or too large to be edited here.');
  const changed = (values) => {
    const body = values.body?.replaceAll('\r\n', '\n');
    return small && body !== plain ? { body: crlf ? body.replaceAll('\n', '\r\n') : body } : {};
  };
  return h('div', { class: 'acts' },
    mine && waits && [
      h(Button, { onClick: asks(['Run ', name, ' now?'], 'Run now', async () => {
        await act('run', on, { version: m.version });
        return 'It is due now.';
      }, 'It is due at once, and stays the same message.') }, 'Run now…'),
      h(Button, { onClick: asks(['Move ', name], 'Move', async ({ delay }) => {
        const { due } = await act('reschedule', on, { version: m.version, body: { delay } });
        return `It is due ${at(due, { date: true })}.`;
      }, h(Field, { label: 'Due from now in: 90s, 20m, 2h, 3d' },
        h('input', { name: 'delay', required: true, autocomplete: 'off' }))) }, 'Move…'),
      small && who.bodies && h(Button, { onClick: () => {
        let known = m.version; // that the form may replace
        asks(['Edit ', name], 'Save', async (values) => {
          if (!('body' in changed(values))) return 'Nothing was changed.';
          try {
            const { uid, version } = await act('reschedule', on, { version: known, body: changed(values) });
            return uid === m.uid ? `It is version ${version} now.`
              : ['Consumers had it, so it goes on as ', link(to(uid), uid), '.'];
          } catch (problem) {
            if (problem.status !== 412) throw problem;
            const now = await read('get', {}, { values: on });
            known = now.version;
            problem.shown = [`Somebody else has changed it. Version ${known} says:`,
              h('pre', { class: 'first', tabindex: 0 }, text(now, large)),
              'Yours stands above: save it again to replace theirs.'];
            throw problem;
          }
        }, edit)();
      } }, 'Edit…'),
      h(Button, { kind: 'danger', onClick: asks(['Cancel ', name, '?'], 'Cancel the message', async () => {
        const { version } = await read('get', {}, { values: on });
        if (version !== m.version) {
          throw new Error(`It has version ${version} by now, and this page showed ${m.version}: look at it again.`);
        }
        await act('cancel', on);
        return 'It is canceled: it will not be delivered.';
      }, m.attempt > 1 || m.uncertain ? 'It was tried before. After a cancel it is not tried again.'
        : 'It has not been tried yet.', 'danger') }, 'Cancel…')],
    who?.operate && m.consumer && h(Button, { onClick: asks(['Free ', name, '?'], 'Free it', async () => {
      await act('release', on);
      return 'It is ready for another consumer.';
    }, [h(Name, null, m.consumer), ' loses its lease, and the message is ready at once.']) }, 'Free…'),
    who?.operate && m.state === 'dead' && h(Button, { onClick: asks(['Requeue ', name], 'Requeue', async (values) => {
      const { uid } = await act('dead_requeue', {}, { body: { id: m.uid, ...who.bodies ? changed(values) : {} } });
      return ['It goes on as ', link(to(uid), uid), '.'];
    }, [h('p', null, 'It is due at once, as a new message under the same id.'), who.bodies && edit]) }, 'Requeue…'));
}

// Missing says where the message was looked for, and what else has the name.
function Missing({ id, f }) {
  return h('div', null, h('div', { class: 'head' }, h('h1', null, 'No message ', h(Name, null, id))),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? h(Everywhere, { all: [f.data] }) : !f.problem && h(Ghost),
    h('p', { class: 'lede' }, 'Without a journal tarry forgets what has ended after a while. If NATS took the push, '
      + 'and tarry does not have it, its subject may lie outside this namespace.'));
}

// Everywhere is what why has found: messages, pushes that are none yet, and how far it looked.
export function Everywhere({ all }) {
  const seen = new Set(), messages = all.flatMap((a) => a.messages).filter((m) => !seen.has(m.uid) && seen.add(m.uid));
  const pushes = all.flatMap((a) => a.pushes ?? []);
  const looked = all.flatMap((a) => a.looked).filter((p) => p.error || !p.whole);
  return [
    messages.length + pushes.length === 0 && h('p', { class: 'lede' }, 'Nothing was found.'),
    messages.length > 0 && h(Rows, { caption: 'messages', messages }),
    pushes.length > 0 && h(Section, { title: 'Pushes that are no messages' }, h(Table, { caption: 'pushes',
      head: [['Stored'], ['Topic'], ['Id'], ['Why']],
      rows: pushes.map((p, i) => ({ key: i, cells: [h(When, { time: p.at }), h(Name, null, p.topic),
        h(Name, null, p.id ?? p.uid ?? '–'), h('bdi', null, p.why.detail || p.why.word)] })) })),
    looked.length > 0 && h('p', { class: 'note' }, 'Not all was looked at: ', looked.map((p) =>
      `${p.place}${p.error ? ` (${p.error})` : `, the first ${num(p.read)}`}`).join('; '), '.'),
  ];
}

// Rows are messages, what is due first first.
export function Rows({ messages, caption }) {
  return h(Table, { caption,
    head: [['Due'], ['Beside now', 'wide'], ['Message'], ['Topic'], ['State'], ['Key', 'wide']],
    rows: messages.map((m) => {
      const [mark, word] = shown(m), waits = !m.ended_at;
      const more = waits ? m.why?.word?.replaceAll('_', ' ') : m.reason;
      return { key: m.uid, cells: [h(When, { time: m.due, late: waits }), waits && h(Ruler, { time: m.due, mark }),
        link(to(m.uid), h(Name, null, m.id)), h(Name, null, m.topic),
        [h(Mark, { is: mark }), word, ' ', h('small', null, h('bdi', null, more))],
        m.key ? h(Name, null, m.key) : '–'] };
    }) });
}
