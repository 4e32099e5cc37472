// Cluster: who leads, who stands by, what each lacks and reaches, how its clocks are; the journal, and who led.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Happened, Missing } from './s-actions.mjs';
import {
  Button, count, Facts, Ghost, M, Mark, Name, Notice, num, Rel, S, Section, span, Table, units, When,
} from './parts.mjs';

const cluster = ['cluster', { detail: true }, 2 * S], led = ['events', { kind: 'leader', limit: 20 }, 5 * S];
export const feeds = () => [cluster, led];

export function Cluster({ feed, who, ask }) {
  const f = feed(...cluster), c = f.data, o = feed('overview').data, past = feed(...led).data;
  const told = c?.instances.filter((i) => i.detail);
  const able = c?.instances.some((i) => i.role === 'standby' && i.can_lead);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Cluster'),
      c && h('p', { class: 'note' }, c.leader ? [h('b', null, h(Name, null, c.leader.instance)),
        ` leads term ${c.term}, for `, h(Rel, { time: c.leader.since, how: 'for' })] : 'Nobody leads.'),
      c?.leader && who?.operate && h('div', { class: 'acts' },
        h(Button, { disabled: !able || f.problem, title: able ? undefined : 'no other instance could take over',
          onClick: () => ask(resign(c.leader.instance)) }, 'Step down…'))),
    f.problem && h(Notice, null, f.problem.message),
    c ? [h(Instances, { c, may: who?.operate, ask }), h(Missing, { missing: c.missing ?? [] }), h(Reaches, { told }),
      h('div', { class: 'split' }, h(Clocks, { told, few: c.clocks }), h(Under, { c, o })),
      past && h(Section, { title: 'Who led', note: 'since the instances started' }, h(Happened, past))]
      : !f.problem && h(Ghost));
}

const roles = { leader: ['done', 'leads'], standby: ['waiting', 'stands by'], gone: ['gone', 'is gone'] };

function Instances({ c, may, ask }) {
  const says = (i) => [
    !i.ready && i.role !== 'gone' && `takes no pushes: ${(i.lacks ?? []).join(', ') || 'not ready'}`,
    i.ready && i.lacks?.length > 0 && `lacks ${i.lacks.join(', ')}`,
    i.role === 'standby' && !i.can_lead && 'could not lead', i.other_store && 'uses another store',
    i.role === 'standby' && i.linked === undefined && c.leader && 'has no link to the leader',
    i.differs?.length > 0 && `differs in ${i.differs.join(', ')}`,
    i.restored && `restored ${i.restored}`].filter(Boolean);
  return h(Table, { caption: 'instances', head: [['Instance'], ['Address'], ['Role'], ['What is amiss'], ['Version'],
    ['Act', 'acts']],
  rows: c.instances.map((i) => {
    const [mark, word] = roles[i.role] ?? ['unsure', i.role], amiss = says(i);
    return { key: i.instance, cells: [h('b', null, h(Name, null, i.instance)), h(Name, null, i.address),
      [h(Mark, { is: mark }), word, i.seen && [', last seen ', h(Rel, { time: i.seen })]],
      amiss.length ? [h(Mark, { is: 'late' }), h('bdi', null, amiss.join('; '))] : '–', i.version,
      may && i.role === 'gone' ? h(Button, { onClick: () => ask(forget(i.instance)) }, 'Forget…') : '–'] };
  }) });
}

// Reaches is what each instance reaches, and why not.
function Reaches({ told }) {
  const checks = [...new Set(told.flatMap((i) => i.detail.checks.map((k) => k.name)))];
  const fail = told.flatMap((i) => i.detail.checks.filter((k) => !k.ok).map((k) => ({ ...k, instance: i.instance })));
  return h(Section, { title: 'What each reaches' },
    h(Table, { caption: 'what each instance reaches',
      head: [['Instance'], ...checks.map((name) => [name.replaceAll('_', ' ')]), ['Runs for', 'n']],
      rows: told.map(({ instance, detail }) => ({ key: instance, cells: [h('b', null, h(Name, null, instance)),
        ...checks.map((name) => {
          const k = detail.checks.find((one) => one.name === name);
          return k ? [h(Mark, { is: k.ok ? 'done' : 'dead' }), k.ok ? 'yes' : 'no'] : '–';
        }), h(Rel, { time: detail.since, how: 'for' })] })) }),
    fail.map((k) => h(Notice, { mark: 'dead' }, h(Name, null, k.instance), ` lacks ${k.name.replaceAll('_', ' ')}`,
      k.buckets?.length > 0 && ` in the parts ${k.buckets.join(', ')}`, k.detail && [': ', h('bdi', null, k.detail)])));
}

// Clocks draws how far each clock is ahead, on a logarithmic scale from 0.1 ms to an hour on each side.
function Clocks({ told, few }) {
  const place = (ms) => 84 + Math.sign(ms) * Math.min(Math.log10(1 + Math.abs(ms) / 0.1) / 7.56, 1) * 76;
  const ahead = (ms) => `${ms < 0 ? '−' : '+'}${Math.abs(ms) < S ? `${Math.abs(ms).toFixed(1)}ms` : span(ms)}`;
  return h(Section, { title: 'Clocks', note: 'how far each is ahead of the time that decides what is due' },
    few && h(Notice, null, h('bdi', null, few)),
    h(Table, { caption: 'clocks', head: [['Instance'], ['Clock'], ['Ahead by', 'n'], ['Where', 'wide']],
      rows: told.flatMap(({ instance, detail }) => detail.clocks.map((c) => {
        const middle = (c.least_ms + c.most_ms) / 2, doubt = (c.most_ms - c.least_ms) / 2, off = Math.abs(middle) > S;
        const [low, high] = [place(c.least_ms), place(c.most_ms)];
        return { key: instance + c.source, cells: [h(Name, null, instance), c.source,
          [off && h(Mark, { is: 'late' }), units(ahead(middle)),
            doubt > 0.05 && h('small', null, ` ±${doubt.toFixed(1)}`)],
          h('svg', { class: 'ruler', width: 168, height: 14, viewBox: '0 0 168 14', 'aria-hidden': 'true' },
            h('path', { class: 'grid', d: 'M8 7h152' }),
            [-M, -S, -10, 10, S, M].map((ms) => h('path', { class: 'grid', d: `M${place(ms)} 5v4` })),
            h('path', { class: 'now', d: 'M84 1v12' }),
            h('path', { d: `M${low - 1.5} 7H${high + 1.5}`, 'stroke-width': 5,
              stroke: `var(--${off ? 'late' : 'done'})` }))] };
      })) }));
}

function Under({ c, o }) {
  const { mode, lag } = c.journal ?? {}, rows = [['journal', mode ?? 'not known'],
    ['not in the journal yet', lag && count(lag.changes, 'change')],
    ['the oldest of them', lag?.oldest && h(When, { time: lag.oldest, late: true })],
    ['clocks that vote', o?.clocks && num(o.clocks.voters)], ['they are apart', o?.clocks && span(o.clocks.spread_ms)]];
  return h(Section, { title: 'Under it' }, h(Facts, { rows: rows.filter(([, value]) => value) }));
}

const resign = (leader) => ({ title: ['Let ', h(Name, null, leader), ' step down?'], button: 'Step down',
  body: 'It finishes what is in flight, and another instance takes over.',
  go: async () => {
    await act('resign', {});
    return 'It has stepped down.';
  } });

const forget = (instance) => ({ title: ['Forget ', h(Name, null, instance), '?'], button: 'Forget',
  body: 'It is no longer listed as gone. If it comes back, it is there again.',
  go: async () => {
    await act('forget', { instance });
    return 'It is forgotten.';
  } });
