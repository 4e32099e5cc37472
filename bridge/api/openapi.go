package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// The description of this API as OpenAPI 3.1 is made of tables in Go, not of a file: so limits and words are the
// constants that the handlers use. Tests hold it against the routes, the decoders and real answers, both ways.

// object is a JSON object whose members keep their order: it is read by people, too.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		b.Write(append(name, ':'))
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// documentRoutes are those of the description and of the page that shows it. Anybody may read both: there is no secret
// in them. They are no part of what they describe, so they stand beside the table of routes.
func (s *Server) documentRoutes() {
	// Made when it is first asked for: most servers never are.
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(document(s.cfg.Version)) })
	s.mux.Handle("GET /openapi.json", s.serve(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		text, err := document()
		if err != nil {
			return fmt.Errorf("encode the description: %w", err)
		}
		s.respond(w, http.StatusOK, func(b []byte) []byte { return append(b, text...) })
		return nil
	}))
	s.mux.Handle("GET /docs", s.serve(docsPage))
	s.mux.Handle("GET /docs/{asset}", s.serve(docsAsset))
}

// document is the whole description.
func document(version string) object {
	if version == "" {
		version = "unknown"
	}
	paths := object{}
	for _, op := range operations() {
		method, path, _ := strings.Cut(op.pattern, " ")
		i := slices.IndexFunc(paths, func(m member) bool { return m.name == path })
		if i < 0 {
			i = len(paths)
			paths = append(paths, member{path, object{}})
		}
		item, _ := paths[i].value.(object)
		paths[i].value = append(item, member{strings.ToLower(method), op.describe(path)})
	}
	return object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "tarry"},
			{"summary", "Delayed messages for NATS"},
			{"description", introduction},
			{"license", object{{"name", "Apache 2.0"}, {"identifier", "Apache-2.0"}}},
			{"version", version},
		}},
		{"servers", []object{{{"url", "/"},
			{"description", "The instance that serves this description; every instance answers everything."}}}},
		{"tags", tags()},
		{"paths", paths},
		{"components", object{
			{"schemas", slices.Concat(commonSchemas(), requestSchemas(), answerSchemas(), rejectSchemas())},
			{"headers", headerObjects()},
			{"securitySchemes", object{{"token", object{
				{"type", "http"}, {"scheme", "bearer"},
				{"description", "A token of the settings, which carries rights: read, push (by patterns of topics), " +
					"operate (comes with read). " +
					"Where the settings have no token nobody is asked for one, and everybody may do everything."},
			}}}},
		}},
	}
}

const introduction = "tarry holds messages until they are due and then publishes them on their NATS subject.\n\n" +
	"**Errors** are `{\"error\": \"stable_word\", \"detail\": \"a sentence\"}`, whatever goes wrong: programs " +
	"compare the word, which never changes " +
	"its meaning, and never the sentence. Beside what the operations list, a path that does not exist is 404 " +
	"`unknown_route`, and a method that a " +
	"path does not have is 405 `method_not_allowed` with `Allow`; both want a token where there are tokens. Only " +
	"/metrics answers in plain text.\n\n" +
	"**Requests** are JSON in UTF-8 (`application/json`; a missing Content-Type is taken for it). An unknown or " +
	"repeated field, or an unknown or " +
	"repeated query parameter, is refused and nothing is done; a field that is null counts as absent.\n\n" +
	"**Times** are answered as RFC 3339 in UTC with milliseconds, and taken as RFC 3339 or as unix milliseconds. " +
	"**Durations** are text such as " +
	"`20m` or `1d12h`, or whole milliseconds.\n\n" +
	"**HEAD** works wherever GET does. **503** carries `Retry-After` in seconds. **504** `outcome_unknown` means " +
	"that the change may have happened: " +
	"repeat it, a push with the `id` that the answer names.\n\n" +
	"**Long operations** answer their report when they end. A client that accepts `application/x-ndjson` gets lines " +
	"instead: `{\"progress\": {...}}` " +
	"once a second and at last `{\"report\": {...}}`, or an error; where one fails before the first line the status " +
	"tells.\n\n" +
	"**Browsers**: a request that changes something and comes from a page of another origin is 403 `cross_origin`. " +
	"Where no token is asked for, " +
	"a Host that is neither an address nor localhost nor in the settings is 403 `foreign_host`."

// operation is one route as it is described. What all routes of its kind share is added when it is: see describe.
type operation struct {
	pattern string // as the mux has it
	id      string
	tag     string
	summary string
	text    string
	open    bool // to anybody
	needs   right
	params  []object
	body    string // the schema of the request; empty: none is read
	answers []told
	// problems are the words by status, less those that every route of this kind has.
	problems map[int][]string
	// plain: it reads no query and its errors are no JSON.
	plain bool
}

// told is a successful answer.
type told struct {
	status  int
	text    string
	schema  string
	headers []string
	lines   string // the schema of one line, where lines may be asked for
}

// describe is the operation object.
func (op *operation) describe(path string) object {
	text := op.text
	var security []object
	if op.open {
		text += "\n\nAnybody may ask."
		security = []object{}
	} else {
		text += "\n\nNeeds the right: " + op.needs.String() + "."
		for one := range strings.SplitSeq(op.needs.String(), " or ") {
			security = append(security, object{{"token", []string{one}}})
		}
	}
	o := object{
		{"operationId", op.id}, {"tags", []string{op.tag}}, {"summary", op.summary},
		{"description", strings.TrimSpace(text)}, {"security", security},
	}
	if !op.open {
		o = append(o, member{"x-right", op.needs.String()})
	}
	if params := append(pathParams(path), op.params...); len(params) > 0 {
		o = append(o, member{"parameters", params})
	}
	if op.body != "" {
		o = append(o, member{"requestBody", object{
			{"required", mustHave[op.body]},
			{"content", object{{"application/json", object{{"schema", ref(op.body)}}}}},
		}})
	}
	return append(o, member{"responses", op.responses()})
}

// responses are the successes and the problems by status.
func (op *operation) responses() object {
	all := map[int]object{}
	for _, a := range op.answers {
		content := object{{"application/json", object{{"schema", ref(a.schema)}}}}
		if op.plain {
			content = object{{"text/plain", object{{"schema", object{{"type", "string"}}}}}}
		}
		if a.lines != "" {
			content = append(content, member{linesType, object{{"schema", ref(a.lines)}}})
		}
		r := object{{"description", a.text}}
		if len(a.headers) > 0 {
			r = append(r, member{"headers", headerRefs(a.headers)})
		}
		all[a.status] = append(r, member{"content", content})
	}
	for status, words := range op.words() {
		r := object{{"description", problemText(status, words)}}
		if h := problemHeaders(status); len(h) > 0 {
			r = append(r, member{"headers", headerRefs(h)})
		}
		schema := object{
			{"allOf", []object{ref("Problem"), {{"properties", object{{"error", object{{"enum", words}}}}}}}}}
		all[status] = append(r, member{"content", object{{"application/json", object{{"schema", schema}}}}})
	}
	statuses := make([]int, 0, len(all))
	for status := range all {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	var o object
	for _, status := range statuses {
		o = append(o, member{fmt.Sprint(status), all[status]})
	}
	return o
}

func problemText(status int, words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return http.StatusText(status) + ": " + strings.Join(quoted, ", ") + "."
}

const schemaPath = "#/components/schemas/"

func ref(schema string) object { return object{{"$ref", schemaPath + schema}} }

func headerRefs(names []string) (o object) {
	for _, name := range names {
		o = append(o, member{name, object{{"$ref", "#/components/headers/" + name}}})
	}
	return o
}

func headerObjects() object {
	header := func(text string, schema object) object {
		return object{{"description", text}, {"schema", schema}}
	}
	return object{
		{"Location",
			header("The path of the message, by its uid.", object{{"type", "string"}, {"format", "uri-reference"}})},
		{"ETag", header(`The message's version in quotes, as If-Match takes it.`,
			object{{"type", "string"}, {"pattern", `^"[1-9][0-9]*"$`}})},
		{"Retry-After", header("When to try again, in seconds.", object{{"type", "integer"}, {"minimum", 1}})},
		{"WWW-Authenticate",
			header("The scheme that is wanted.", object{{"type", "string"}, {"const", `Bearer realm="tarry"`}})},
	}
}

func tags() []object {
	tag := func(name, text string) object { return object{{"name", name}, {"description", text}} }
	return []object{
		tag("messages", "Push, look up, change and cancel."),
		tag("dead", "Messages that were given up after all their attempts."),
		tag("topics", "What waits by topic, and what is paused."),
		tag("journal", "What the journal knows and mends. Without one these answer 501 `needs_journal`."),
		tag("rejects", "Pushes by tag that NATS had acknowledged and tarry refused. Without JetStream these answer "+
			"501 `needs_jetstream`."),
		tag("cluster", "Who leads, and health."),
	}
}
