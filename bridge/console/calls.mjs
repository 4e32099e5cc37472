// What the console asks the API, and how often. The API lies beside the page, under a proxy's prefix too.
const api = new URL('../v1/', import.meta.url);

// The routes that the console asks; a test holds them against the operations.
export const routes = {
  me: 'GET /v1/me',
  overview: 'GET /v1/overview',
  series: 'GET /v1/series',
  events: 'GET /v1/events',
  actions: 'GET /v1/actions',
  leases: 'GET /v1/topics/{topic}/leases',
  forecast: 'GET /v1/forecast',
  held: 'GET /v1/held',
  topics: 'GET /v1/topics',
  rejects: 'GET /v1/rejects',
  cluster: 'GET /v1/cluster',
  dead_groups: 'GET /v1/dead/groups',
  list: 'GET /v1/messages',
  get: 'GET /v1/messages/{id}',
  history: 'GET /v1/messages/{id}/history',
  why: 'GET /v1/why',
  pause: 'POST /v1/topics/{topic}/pause',
  resume: 'POST /v1/topics/{topic}/resume',
  run: 'POST /v1/messages/{id}/run',
  reschedule: 'PATCH /v1/messages/{id}',
  cancel: 'DELETE /v1/messages/{id}',
  reschedule_many: 'POST /v1/messages/reschedule',
  cancel_many: 'POST /v1/messages/cancel',
  release: 'POST /v1/messages/{id}/release',
  dead_requeue: 'POST /v1/dead/requeue',
  dead_purge: 'POST /v1/dead/purge',
  rejects_requeue: 'POST /v1/rejects/requeue',
  resign: 'POST /v1/cluster/resign',
  forget: 'DELETE /v1/cluster/instances/{instance}',
};

// Problem is an unsuccessful answer. Its status is 0 where there was none.
export class Problem extends Error {
  constructor(status, word, detail) {
    super(detail);
    Object.assign(this, { status, word });
  }
}

// The token stays in this tab and dies with it.
export const token = {
  get: () => sessionStorage.getItem('token'),
  set: (text) => (text ? sessionStorage.setItem('token', text) : sessionStorage.removeItem('token')),
};

// request asks an operation; a parameter of its path takes what values has of that name.
function request(name, query, { values = {}, body, headers, signal = AbortSignal.timeout(15_000) } = {}) {
  const [method, route] = routes[name].split(' ');
  // An id of dots is a name, and no way up.
  const segment = (_, key) => encodeURIComponent(values[key]).replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length));
  const at = new URL(route.replace('/v1/', '').replace(/{(\w+)}/g, segment), api);
  at.search = new URLSearchParams(query);
  const all = { ...headers, ...token.get() && { Authorization: `Bearer ${token.get()}` },
    ...body && { 'Content-Type': 'application/json' } };
  return fetch(at, { method, headers: all, body: body && JSON.stringify(body), cache: 'no-store', redirect: 'error',
    signal });
}

const silent = () => new Problem(0, 'no_answer', 'No instance answers this page.');

// read returns what an answer says, or throws its problem. A proxy may say something of its own.
function read({ ok, status }, text) {
  let body = {};
  try { body = JSON.parse(text); } catch { /* it is not tarry's */ }
  if (ok && body && !body.error) return body;
  throw Object.assign(new Problem(status, body?.error ?? 'unreadable',
    body?.detail ?? `The answer is ${status}, and not tarry's.`), { answer: body });
}

export async function ask(name, query, more) {
  let answer, text;
  try {
    answer = await request(name, query, more);
    text = await answer.text();
  } catch {
    throw silent();
  }
  return read(answer, text);
}

// act changes something. values stand in its path, version is what it must have.
export const act = (name, values, { query = {}, body, version } = {}) =>
  ask(name, query, { values, body, headers: version && { 'If-Match': String(version) } });

// long changes many. It tells the progress until the report has come; what is done stays done if it is broken off.
export async function long(name, body, progress, signal) {
  let answer, report, rest = '';
  try {
    answer = await request(name, {}, { body, headers: { Accept: 'application/x-ndjson' }, signal });
    if (!answer.ok) return read(answer, await answer.text());
    for (const text = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { done, value } = await text.read();
      const lines = (rest + (value ?? '')).split('\n');
      rest = lines.pop();
      for (const line of lines.filter(Boolean)) {
        const one = read(answer, line);
        if (one.report) ({ report } = one);
        else progress(one.progress);
      }
      if (!done) continue;
      if (!report) throw silent();
      return report;
    }
  } catch (problem) {
    throw problem instanceof Problem ? problem : silent();
  }
}

// Feed asks for the same again and again. It waits for an answer before it asks anew, and longer after each failure.
export class Feed {
  constructor(name, query, every, values) {
    Object.assign(this, { name, query, every, values, busy: false });
    this.renew();
  }

  // renew makes it ask at once. What it knows stays.
  renew() {
    Object.assign(this, { problem: null, failed: 0, asked: -Infinity });
  }

  // soon makes it ask at once or a while from now, unless it is not answered.
  soon(wait = 0) {
    if (!this.failed) this.asked = Math.min(this.asked, Date.now() - this.every + wait);
  }

  get due() {
    const wait = this.failed ? Math.min(1000 * 2 ** this.failed, 30_000) : this.every;
    return !this.busy && Date.now() - this.asked >= wait;
  }

  // ask keeps the data of the last good answer beside what went wrong since.
  async ask() {
    [this.began, this.busy] = [Date.now(), true];
    try {
      this.data = await ask(this.name, this.query, { values: this.values });
      [this.answered, this.problem, this.failed] = [Date.now(), null, 0];
    } catch (problem) {
      [this.problem, this.failed] = [problem, this.failed + 1];
    }
    [this.asked, this.busy] = [Date.now(), false];
  }
}
