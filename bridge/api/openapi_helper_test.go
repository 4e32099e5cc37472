package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// description is /openapi.json, read, with its schemas closed: what an answer holds beyond them is a mistake here.
type description struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
	seen     map[string]int // "POST /v1/messages 409 duplicate_id"; of a success the word is empty
}

func describe(t testing.TB, h http.Handler) *description {
	t.Helper()
	a := call(t, h, "GET", "/openapi.json", "").want(t, 200, "")
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(a.raw))
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := value.(map[string]any)
	doc["paths"] = inline(doc, doc["paths"])
	closeObjects(doc["components"])
	closeObjects(doc["paths"])
	d := &description{doc: doc, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{},
		seen: map[string]int{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	d.compiler.AssertContent()
	if err := d.compiler.AddResource("openapi.json", value); err != nil {
		t.Fatal(err)
	}
	return d
}

// inline puts the responses and parameters that operations share in place of the references to them.
func inline(doc, value any) any {
	switch v := value.(type) {
	case map[string]any:
		where, _ := v["$ref"].(string)
		for _, shared := range []string{"responses", "parameters"} {
			if name, found := strings.CutPrefix(where, "#/components/"+shared+"/"); found {
				return at(doc, "components", shared, name)
			}
		}
		for name, inner := range v {
			v[name] = inline(doc, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = inline(doc, inner)
		}
	}
	return value
}

// closeObjects lets no schema of an object take what it does not name.
func closeObjects(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, has := v["additionalProperties"]; v["type"] == "object" && v["properties"] != nil && !has {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

// at follows a path of names; nil where it ends.
func at(value any, names ...string) any {
	for _, name := range names {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}

// operations are the described ones, as the mux has their patterns.
func (d *description) operations() map[string]map[string]any {
	all := map[string]map[string]any{}
	paths, _ := d.doc["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method, op := range methods {
			all[strings.ToUpper(method)+" "+path], _ = op.(map[string]any)
		}
	}
	return all
}

// pointer is the place of something in an operation.
func pointer(pattern string, names ...string) string {
	method, path, _ := strings.Cut(pattern, " ")
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	where := "openapi.json#/paths/" + escape.Replace(path) + "/" + strings.ToLower(method)
	for _, name := range names {
		where += "/" + escape.Replace(name)
	}
	return where
}

// schema compiles the schema at a place.
func (d *description) schema(t testing.TB, where string) *jsonschema.Schema {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[where]; s != nil {
		return s
	}
	s, err := d.compiler.Compile(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(where))
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	d.compiled[where] = s
	return s
}

// holds returns what in a JSON text does not match its schema.
func (d *description) holds(t testing.TB, where, text string) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return d.schema(t, where).Validate(value)
}

// fields are the properties of a request's schema, nil where the operation reads no body.
func (d *description) fields(op map[string]any) []string {
	ref, _ := at(op, "requestBody", "content", "application/json", "schema", "$ref").(string)
	if ref == "" {
		return nil
	}
	properties, _ := at(d.doc, "components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"),
		"properties").(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// words are all problems that are described, as seen has them.
func (d *description) all() (want []string) {
	for pattern, op := range d.operations() {
		responses, _ := op["responses"].(map[string]any)
		for status, response := range responses {
			both, isProblem := at(response, "content", "application/json", "schema", "allOf").([]any)
			var words []any
			if isProblem {
				words, _ = at(both[1], "properties", "error", "enum").([]any)
			} else {
				want = append(want, fmt.Sprint(pattern, " ", status, " "))
			}
			for _, word := range words {
				want = append(want, fmt.Sprint(pattern, " ", status, " ", word))
			}
		}
	}
	return want
}

// ask makes a request and holds its answer, and where it is a success the request, against the description.
func (d *description) ask(t testing.TB, door *door, r *http.Request, body string) reply {
	t.Helper()
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	return d.judge(t, door, r, w, body)
}

// judge is ask of an answer that has come.
func (d *description) judge(t testing.TB, door *door, r *http.Request, w *httptest.ResponseRecorder,
	body string) reply {
	t.Helper()
	pattern := door.Pattern(r)
	a := reply{status: w.Code, header: w.Header(), raw: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.json)
	if pattern == "/" {
		return a
	}
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	label := fmt.Sprint(r.Method, " ", r.URL, " ", body)
	label = label[:min(len(label), 300)]
	d.mu.Lock()
	d.seen[fmt.Sprint(pattern, " ", w.Code, " ", a.word())]++
	d.mu.Unlock()
	if *update {
		return a
	}
	response := at(d.operations()[pattern], "responses", fmt.Sprint(w.Code))
	if response == nil {
		t.Errorf("%s: %d is not described: %s", label, w.Code, a.raw)
		return a
	}
	if at(response, "content", media) == nil {
		t.Errorf("%s: %d has the type %q, which is not described", label, w.Code, media)
		return a
	}
	where := pointer(pattern, "responses", fmt.Sprint(w.Code), "content", media, "schema")
	switch media {
	case "application/json":
		if err := d.holds(t, where, a.raw); err != nil {
			t.Errorf("%s: %d %s: %v", label, w.Code, a.raw, err)
		}
	case "application/x-ndjson":
		for line := range strings.Lines(a.raw) {
			if err := d.holds(t, where, line); err != nil {
				t.Errorf("%s: the line %s: %v", label, line, err)
			}
		}
	}
	d.headers(t, label, response, w.Header())
	if w.Code < 300 && strings.TrimSpace(body) != "" && !strings.Contains(body, "null") {
		err := d.holds(t, pointer(pattern, "requestBody", "content", "application/json", "schema"), body)
		if err != nil {
			t.Errorf("%s: taken, and not as described: %v", label, err)
		}
	}
	return a
}

// headers holds those that are described against those that came: both must be there, or neither.
func (d *description) headers(t testing.TB, label string, response any, came http.Header) {
	t.Helper()
	for _, name := range []string{"Location", "ETag", "Retry-After", "WWW-Authenticate"} {
		described, value := at(response, "headers", name) != nil, came.Get(name)
		if value != "" && !described && name != "ETag" || value == "" && described {
			t.Errorf("%s: the header %s is %q; described: %v", label, name, value, described)
		}
		if value == "" || !described {
			continue
		}
		text, _ := json.Marshal(value)
		if name == "Retry-After" {
			text = []byte(value)
		}
		if err := d.holds(t, "openapi.json#/components/headers/"+name+"/schema", string(text)); err != nil {
			t.Errorf("%s: the header %s: %v", label, name, err)
		}
	}
}

// flushed signals that the first line of an answer was sent.
type flushed struct {
	*httptest.ResponseRecorder
	once  sync.Once
	first chan struct{}
}

func (f *flushed) Flush() {
	f.ResponseRecorder.Flush()
	f.once.Do(func() { close(f.first) })
}

func asked(t testing.TB, method, target, body string, header ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// breaking is a body that ends with an error.
type breaking struct{ err error }

func (b breaking) Read([]byte) (int, error) { return 0, b.err }

var (
	errSlow = fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	errGone = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
	errElse = errors.New("secret inside")
)

func compact(t testing.TB, value any) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
