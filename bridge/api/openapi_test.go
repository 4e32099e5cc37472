package api_test

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestOpenAPI_IsAValidDescription(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := call(t, d, "GET", "/openapi.json", "").want(t, 200, "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "v1.2.3" {
		t.Errorf("it is of %s, version %s", doc.OpenAPI, doc.Info.Version)
	}
	described := describe(t, d)
	schemas, _ := at(described.doc, "components", "schemas").(map[string]any)
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`"#/components/(\w+/[\w-]+)"`).FindAllStringSubmatch(a.raw, -1) {
		used[m[1]] = true
	}
	for name, schema := range schemas {
		where := "openapi.json#/components/schemas/" + name
		described.schema(t, where)
		examples, _ := at(schema, "examples").([]any)
		for _, example := range examples {
			if err := described.holds(t, where, compact(t, example)); err != nil {
				t.Errorf("an example of %s: %v", name, err)
			}
		}
	}
	for _, kind := range []string{"schemas", "parameters", "responses", "headers"} {
		all, _ := at(described.doc, "components", kind).(map[string]any)
		for name := range all {
			if !used[kind+"/"+name] {
				t.Errorf("nothing uses %s/%s", kind, name)
			}
		}
	}
	for _, empty := range []string{`"summary": ""`, `"description": ""`, `"tags": []`} {
		if at := strings.Index(a.raw, empty); at >= 0 {
			t.Errorf("nobody has written what %s stands for: …%s", empty, a.raw[max(at-200, 0):at])
		}
	}
	ids := map[any]bool{}
	for pattern, op := range described.operations() {
		if ids[op["operationId"]] || op["summary"] == nil || op["description"] == nil || op["tags"] == nil {
			t.Errorf("%s has no name of its own, no summary, text or tag", pattern)
		}
		ids[op["operationId"]] = true
	}
}

// ofSeeds reports whether a route is one of other systems, which docs/seeds.md describes for their clients.
func ofSeeds(pattern string) bool {
	return slices.ContainsFunc([]string{" /camellia/", " /push", " /delete", " /reStore", " /get/", " /clearAll"},
		func(part string) bool { return strings.Contains(pattern, part) })
}

func TestOpenAPI_DescribesEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	d := open(t)
	described := slices.Sorted(maps.Keys(describe(t, d).operations()))
	registered := slices.DeleteFunc(slices.Sorted(slices.Values(d.Patterns())), func(pattern string) bool {
		// what describes, not what is described
		return pattern == "/" || ofSeeds(pattern) || strings.Contains(pattern, "/docs") || pattern == "GET /openapi.json"
	})
	if !slices.Equal(described, registered) {
		t.Errorf("described:\n%s\nregistered:\n%s", strings.Join(described, "\n"), strings.Join(registered, "\n"))
	}
}

// Each right alone, on every route: what x-right and security say is what the server asks for.
func TestOpenAPI_TellsTheRightThatIsAskedFor(t *testing.T) {
	t.Parallel()
	tokens := []api.Token{{Name: "pull", Hash: sha256.Sum256([]byte("pullpull")), Pull: []string{">"}},
		token("read", nil, true, false), token("push", []string{">"}, false, false),
		token("operate", nil, false, true), token("none", nil, false, false)}
	d := open(t, keeping(full().journal), with(full().service()), rejecting(newRejects()), letting(tokens...),
		func(c *api.Config) {
			c.Cluster = full().cluster
		})
	operations := describe(t, d).operations()
	tested := map[string]bool{"GET /livez": true, "GET /readyz": true}
	for _, c := range askedOf {
		r := asked(t, c.method, c.target, "")
		op := operations[d.Pattern(r)]
		tested[d.Pattern(r)] = true
		needs, _ := op["x-right"].(string)
		var roles []string
		security, _ := op["security"].([]any)
		for _, one := range security {
			role, _ := at(one, "token").([]any)
			roles = append(roles, fmt.Sprint(role...))
		}
		if strings.Join(roles, " or ") != needs || needs == "" ||
			!strings.Contains(fmt.Sprint(op["description"]), "Needs the right: "+needs+".") {
			t.Errorf("%s: x-right %q, security %q", d.Pattern(r), needs, roles)
		}
		for _, token := range tokens {
			may := slices.Contains(roles, token.Name) || slices.Contains(roles, "read") && token.Operate ||
				needs == "none"
			if a := call(t, d, c.method, c.target, c.body, as(token.Name)...); (a.word() != "forbidden") != may {
				t.Errorf("%s with the right %s: got %d %s", d.Pattern(r), token.Name, a.status, a.raw)
			}
		}
	}
	for pattern, op := range operations {
		if !tested[pattern] {
			t.Errorf("%s is not tested", pattern)
		}
		if security, _ := op["security"].([]any); (len(security) == 0) != (op["x-right"] == nil) {
			t.Errorf("%s: x-right %v, security %v", pattern, op["x-right"], security)
		}
	}
}

// constants are the texts of the constants of a package whose names begin so.
func constants(t testing.TB, dir, prefix string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, ident := range spec.Names {
				if i >= len(spec.Values) || !strings.HasPrefix(ident.Name, prefix) {
					continue
				}
				if text, ok := spec.Values[i].(*ast.BasicLit); ok && text.Kind == gotoken.STRING {
					value, _ := strconv.Unquote(text.Value)
					found[value] = true
				}
			}
			return true
		})
	}
	return found
}

func TestOpenAPI_HasEveryWord(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"in_flight": true}
	for _, s := range message.States() {
		if s.Ended() {
			known["already_"+s.String()] = true
		}
	}
	for _, dir := range []string{".", "../ops", "../wire"} {
		maps.Copy(known, constants(t, dir, "Word"))
	}
	for _, other := range []string{
		"bad_cursor",    // here it is invalid_cursor
		"invalid_batch", // of the direct door on NATS
	} {
		if !known[other] {
			t.Errorf("%s is no word", other)
		}
		delete(known, other)
	}
	d := describe(t, open(t))
	met := map[string]bool{"unknown_route": true, "method_not_allowed": true} // by requests that meet no operation
	for _, problem := range d.all() {
		met[problem[strings.LastIndex(problem, " ")+1:]] = true
	}
	delete(met, "") // of successes
	fields := constants(t, "../wire", "Field")
	maps.Copy(fields, constants(t, "../ops", "Field"))
	words, _ := at(d.doc, "components", "schemas", "Problem", "properties", "error", "enum").([]any)
	if len(words) != len(met) {
		t.Errorf("Problem has %d words, the operations have %d", len(words), len(met))
	}
	for _, word := range words {
		word, _ := word.(string)
		if !met[word] {
			t.Errorf("%s is of no operation", word)
		}
		if field, refused := strings.CutPrefix(word, "invalid_"); !known[word] && !(refused && fields[field]) {
			t.Errorf("%s is described and is no word", word)
		}
		delete(known, word)
	}
	for word := range known {
		t.Errorf("%s is not described", word)
	}
}

// inPath fills in the names of a path.
func inPath(path string) string {
	return strings.NewReplacer("{id}", "a", "{topic}", "a", "{sequence}", "1", "{receipt}", receiptA).Replace(path)
}

// Every name that any request has is tried on every operation: taken where it is described, refused where it is not.
func TestOpenAPI_HasTheFieldsOfTheRequests(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(full().journal), with(full().service()), rejecting(newRejects()))
	described := describe(t, d)
	names := map[string]bool{"body_base64": true, "messages": true, "nonsense": true, "Topic": true}
	maps.Copy(names, constants(t, "../wire", "Field"))
	maps.Copy(names, constants(t, "../ops", "Field"))
	for _, op := range described.operations() {
		for _, name := range described.fields(op) {
			names[name] = true
		}
	}
	bodies := 0
	for pattern, op := range described.operations() {
		if op["requestBody"] == nil {
			continue
		}
		bodies++
		fields := described.fields(op)
		for name := range names {
			method, path, _ := strings.Cut(pattern, " ")
			a := call(t, d, method, inPath(path),
				fmt.Sprintf(`{%q:{}}`, name))
			refused := a.word() == "unknown_field"
			if refused == slices.Contains(fields, name) {
				t.Errorf("%s: the field %s is described: %v; got %d %s", pattern, name, refused, a.status, a.raw)
			}
		}
	}
	if bodies != 29 {
		t.Errorf("%d operations have a body", bodies)
	}
	push, _ := at(described.doc, "components", "schemas", "Push", "properties").(map[string]any)
	for name := range names { // of a push in a batch, too
		a := call(t, d, "POST", "/v1/messages/batch", fmt.Sprintf(`{"messages":[{%q:{}}]}`, name))
		if refused := strings.Contains(a.raw, `"unknown_field"`); refused == (push[name] != nil) {
			t.Errorf("in a batch: %s: got %s", name, a.raw)
		}
	}
}

// The examples are what the page offers to send: they are taken as they stand.
func TestOpenAPI_ExamplesOfRequestsAreTaken(t *testing.T) {
	t.Parallel()
	d := open(t, full().config)
	described := describe(t, d)
	for pattern, op := range described.operations() {
		name, _ := at(op, "requestBody", "content", "application/json", "schema", "$ref").(string)
		if name == "" {
			continue
		}
		examples, _ := at(described.doc, "components", "schemas", strings.TrimPrefix(name, "#/components/schemas/"),
			"examples").([]any)
		if len(examples) == 0 {
			t.Errorf("%s has no example", pattern)
		}
		for _, example := range examples {
			method, path, _ := strings.Cut(pattern, " ")
			body := compact(t, example)
			a := described.ask(t, d, asked(t, method,
				inPath(path), body), body)
			if a.status >= 300 || strings.Contains(a.raw, `"error"`) {
				t.Errorf("%s: %s: got %d %s", pattern, body, a.status, a.raw)
			}
		}
	}
}

func TestOpenAPI_HasTheParametersOfTheQueries(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(full().journal), with(full().service()), rejecting(newRejects()))
	operations := describe(t, d).operations()
	names := map[string]map[string]bool{}
	all := map[string]bool{"nonsense": true}
	for pattern, op := range operations {
		names[pattern] = map[string]bool{}
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			name, _ := at(p, "name").(string)
			switch at(p, "in") {
			case "query":
				names[pattern][name], all[name] = true, true
			case "path":
				if !strings.Contains(pattern, "{"+name+"}") {
					t.Errorf("%s has no {%s}", pattern, name)
				}
			}
		}
	}
	for pattern := range operations {
		method, path, _ := strings.Cut(pattern, " ")
		if path == "/livez" || path == "/readyz" || path == "/metrics" { // these look at no query
			continue
		}
		for name := range all {
			a := call(t, d, method, inPath(path)+
				"?"+name+"=", "")
			if (a.word() == "unknown_parameter") == names[pattern][name] {
				t.Errorf("%s: the parameter %s is described: %v; got %d %s", pattern, name, names[pattern][name],
					a.status, a.raw)
			}
		}
	}
}

func TestOpenAPI_IsOpenToAnybodyAndHasNoSecret(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *api.Config) {
		c.Token, c.Namespace, c.Prefix = "correct-horse-battery", "hidden-namespace", "hidden-prefix"
	})
	for _, path := range []string{"/openapi.json", "/docs", "/docs/start.js"} {
		r := asked(t, "GET", path, "")
		w := serve(d, r)
		if w.Code != 200 || strings.Contains(w.Body.String(), "correct-horse") ||
			strings.Contains(w.Body.String(), "hidden-") {
			t.Errorf("%s: got %d %.200s", path, w.Code, w.Body)
		}
		length := w.Header().Get("Content-Length")
		if w := serve(d, asked(t, "HEAD", path, "")); w.Code != 200 || w.Header().Get("Content-Length") != length {
			t.Errorf("HEAD %s: got %d, %s bytes, want %s", path, w.Code, w.Header().Get("Content-Length"), length)
		}
		bearer := []string{"Authorization", "Bearer correct-horse-battery"}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			if a := call(t, d, method, path, "", bearer...).want(t, 405, "method_not_allowed"); a.header.Get(
				"Allow") != "GET, HEAD" {
				t.Errorf("%s %s: Allow %q", method, path, a.header.Get("Allow"))
			}
		}
		call(t, d, "GET", path+"?x=y", "").want(t, 400, "unknown_parameter")
		call(t, d, "GET", path+"/", "", bearer...).want(t, 404, "unknown_route")
	}
}
