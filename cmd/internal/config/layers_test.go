package config

import (
	"errors"
	"strings"
	"testing"
)

// examples gives every setting two good values, unlike each other and (where the kind has three values) the default,
// and the settings that must stand beside it.
func examples(file1, file2, tokens1, tokens2, seeds, directory1, directory2 string) map[string]example {
	pair := func(a, b string) example { return example{a: a, b: b} }
	with := func(a, b string, beside ...string) example { return example{a, b, beside} }
	return map[string]example{
		"namespace":        pair("orders", "bills"),
		"instance":         pair("one", "two"),
		"http.listen":      pair("127.0.0.1:1", "[::1]:2"),
		"http.token":       pair("aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"),
		"http.tokens_file": pair(tokens1, tokens2),
		"http.insecure":    pair("true", "false"),
		"http.console":     pair("true", "false"),
		"seeds.listen": with("127.0.0.1:1", "0.0.0.0:2", "seeds.token", "a", "http.tokens_file", seeds,
			"seeds.insecure", "true"),
		"seeds.token":              with("a", "A.b_c-9", "seeds.listen", "127.0.0.1:1", "http.tokens_file", seeds),
		"seeds.insecure":           pair("true", "false"),
		"http.body_limit":          pair("1MiB", "2MiB"),
		"http.header_limit":        pair("8KiB", "1MiB"),
		"http.header_timeout":      pair("1s", "2s"),
		"http.read_timeout":        pair("10s", "1m"),
		"http.idle_timeout":        pair("10s", "1m"),
		"http.connections":         pair("16", "100"),
		"http.tls.cert":            with(file1, file2, "http.tls.key", file1),
		"http.tls.key":             with(file1, file2, "http.tls.cert", file1),
		"http.tls.ca":              with(file1, file2, "http.tls.cert", file1, "http.tls.key", file2),
		"store":                    pair("memory", "redis"),
		"http.probe_listen":        pair("127.0.0.1:1", "0.0.0.0:2"),
		"tls.ca":                   pair(file1, file2),
		"tls.cert":                 with(file1, file2, "tls.key", file1),
		"tls.key":                  with(file1, file2, "tls.cert", file1),
		"tls.server_name":          pair("a", "b.example.com"),
		"http.hosts":               pair("tarry.example.com", "a,b.example.com"),
		"http.proxies":             pair("10.0.0.1", "10.0.0.0/8,::1"),
		"webhook.allow":            pair("10.0.0.1", "10.0.0.0/8,::1"),
		"peer.advertise":           pair("a.example:1", "10.0.0.1:2"),
		"cluster.instances":        pair("2", "3"),
		"peer.listen":              pair("0.0.0.0:7072", "off"),
		"nats.url":                 pair("nats://a:1,nats://b:2", "tls://c:3"),
		"nats.listen":              pair("127.0.0.1:1", "127.0.0.1:2"),
		"nats.prefix":              pair("later", "a.b"),
		"nats.user":                with("ann", "bob", "nats.password", "secret"),
		"nats.password":            with("first", "second", "nats.user", "ann"),
		"nats.token":               pair("first", "second"),
		"nats.creds":               pair(file1, file2),
		"nats.tls.ca":              pair(file1, file2),
		"nats.tls.cert":            with(file1, file2, "nats.tls.key", file1),
		"nats.tls.key":             with(file1, file2, "nats.tls.cert", file1),
		"nats.intake.replicas":     pair("3", "5"),
		"nats.intake.max_bytes":    pair("1MiB", "2MiB"),
		"nats.rejects.max_bytes":   pair("8MiB", "16MiB"),
		"nats.admin":               pair("true", "false"),
		"nats.events":              pair("false", "true"),
		"nats.rejects.per_subject": pair("5", "6"),
		"redis.addrs":              pair("a:1,b:2", "c:3"),
		"redis.master":             pair("one", "two"),
		"redis.username":           with("ann", "bob", "redis.password", "secret"),
		"redis.password":           pair("first", "second"),
		"redis.db":                 pair("1", "2"),
		"redis.tls":                pair("true", "false"),
		"zookeeper.servers":        pair("a:1,b:2,c:3", "d:4"),
		"zookeeper.session":        pair("4s", "10s"),
		"zookeeper.username":       with("ann", "bob", "zookeeper.password", "secret"),
		"zookeeper.password":       with("first", "second", "zookeeper.username", "ann"),
		"journal.mode":             with("async", "sync", "journal.dsn", "sqlite:beside.db"),
		"journal.dsn":              pair("ann:first@tcp(a:3306)/tarry", "sqlite:second.db"),
		"journal.migrate":          pair("false", "true"),
		"journal.outbox":           pair("1MiB", "1GiB"),
		"journal.keep":             pair("24h", "8760h"),
		"journal.window":           pair("1m", "1h"),
		"journal.audit":            pair("10m", "24h"),
		"buckets":                  pair("1", "16"),
		"claim.batch":              pair("1", "1000"),
		"claim.bytes":              pair("1MiB", "2MiB"),
		"publish.timeout":          pair("1s", "500ms"),
		"publish.pending":          pair("64", "256"),
		"retry":                    pair("0,2m", "exp(1s,1h,10)~20%"),
		"dead.keep":                pair("24h", "8760h"),
		"attempts.limit":           pair("1", "9"),
		"ended.keep":               pair("2m", "1h"),
		"names.keep":               pair("24h", "2h"),
		"stop.timeout":             pair("3s", "1m"),
		"data":                     pair(directory1, directory2),
		"log.level":                pair("debug", "error"),
		"log.format":               pair("json", "console"),
		"server":                   pair("http://a:1", "https://b.example/tarry/"),
		"token":                    pair("first", "second"),
		"json":                     pair("true", "false"),
		"timeout":                  pair("1s", "1m30s"),
	}
}

func tokenNamed(name string) string {
	return "{name: " + name + ", sha256: " + hashOf(len(name)) + ", read: true}"
}

type example struct {
	a, b   string
	beside []string // name, value, ...
}

func examplesOf(t *testing.T) map[string]example {
	t.Helper()
	return examples(write(t, "x"), write(t, "y"), write(t, "tokens: ["+oneToken+"]"),
		write(t, "tokens: ["+oneToken+"]"), write(t, "tokens: ["+tokenNamed("a")+","+tokenNamed("A.b_c-9")+","+
			tokenNamed(strings.Repeat("a", 64))+"]"), t.TempDir(), t.TempDir())
}

func TestEachLayerOutranksTheOnesBelowForEverySetting(t *testing.T) {
	t.Parallel()
	all := examplesOf(t)
	for _, s := range settings() {
		e, ok := all[s.name]
		if !ok {
			t.Errorf("%s has no example", s.name)
			continue
		}
		for _, of := range s.commands() {
			t.Run(of.String()+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				inFile := map[string]any{}
				for i := 0; i < len(e.beside); i += 2 {
					inFile[e.beside[i]] = e.beside[i+1]
				}
				beside := write(t, nested(t, inFile))
				inFile[s.name] = e.a
				file := write(t, nested(t, inFile))

				check := func(step, want string, environ []string, args ...string) {
					t.Helper()
					got, err := load(of, flagsOf(t, of, args...), append(needs(of, s.name), environ...))
					if err != nil {
						t.Fatalf("%s: %v", step, err)
					}
					if got := value(t, got, s); got != want {
						t.Errorf("%s: got %q, want %q", step, got, want)
					}
				}
				if len(e.beside) == 0 && s.name != "instance" && s.name != "data" && !required(of, s.name) {
					check("default", s.fallback, nil)
				}
				check("file over default", e.a, nil, "--config", file)
				check("file by environment", e.a, []string{"TARRY_CONFIG=" + file})
				check("environment over default", e.b, []string{"TARRY_CONFIG=" + beside, s.env() + "=" + e.b})
				check("environment over file", e.b, []string{"TARRY_CONFIG=" + file, s.env() + "=" + e.b})
				check("empty environment leaves the file", e.a, []string{"TARRY_CONFIG=" + file, s.env() + "="})
				check("flag over environment and file", e.a, []string{"TARRY_CONFIG=" + file, s.env() + "=" + e.b},
					s.flag()+"="+e.a)
				check("flag over file", e.b, []string{"TARRY_CONFIG=" + file}, s.flag()+"="+e.b)
				check("flag over default", e.b, nil, "--config", beside, s.flag()+"="+e.b)
			})
		}
	}
}

// Only the value that won is looked at, and the refusal names its layer.
func TestARefusalNamesTheLayerThatWon(t *testing.T) {
	t.Parallel()
	file := write(t, "journal: {mode: infile}")
	environ := []string{"TARRY_CONFIG=" + file, "TARRY_JOURNAL_MODE=inenv"}
	_, err := LoadServe(nil, environ[:1])
	mustHave(t, err, `journal.mode: "infile" is not one of the choices (limit: off, async or sync), from `+file)
	_, err = LoadServe(nil, environ)
	mustHave(t, err, `journal.mode: "inenv" is not`, "from TARRY_JOURNAL_MODE")
	_, err = LoadServe(flagsOf(t, serve, "--journal.mode=inflag"), environ)
	mustHave(t, err, `journal.mode: "inflag" is not`, "from --journal.mode")
	s, err := LoadServe(flagsOf(t, serve, "--journal.mode=off"), environ)
	if err != nil || s.Journal.Mode != "off" {
		t.Errorf("flag off: got %q, %v", s.Journal.Mode, err)
	}
	if s, err = LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, "journal:\n  mode: off\n")}); err != nil ||
		s.Journal.Mode != "off" {
		t.Errorf("off in YAML, where it is no boolean: got %q, %v", s.Journal.Mode, err)
	}
}

func TestTheFlagNamesTheFileBeforeTheEnvironment(t *testing.T) {
	t.Parallel()
	one, two := write(t, "namespace: one"), write(t, "namespace: two")
	s, err := LoadServe(flagsOf(t, serve, "--config", two), []string{"TARRY_CONFIG=" + one})
	if err != nil || s.Namespace != "two" {
		t.Errorf("got %q, %v, want two", s.Namespace, err)
	}
	s, err = LoadServe(flagsOf(t, serve, "--config="), []string{"TARRY_CONFIG=" + one})
	if err != nil || s.Namespace != "default" {
		t.Errorf("an empty --config: got %q, %v, want no file", s.Namespace, err)
	}
}

func TestYAMLTakesNumbersBooleansListsAndEmptySections(t *testing.T) {
	t.Parallel()
	s, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, `
buckets: 8
claim: {batch: "20", bytes: 2097152}
http:
  insecure: true
  token:
redis:
  addrs:
    - a:1
    - b:2
nats: {url: "nats://a:1, nats://b:2"}
zookeeper:
`)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Buckets != 8 || s.Claim != (Claim{20, 2 << 20}) || !s.HTTP.Insecure || s.HTTP.Token != "" ||
		len(s.Redis.Addrs) != 2 || s.Redis.Addrs[1] != "b:2" || len(s.NATS.URL) != 2 || s.NATS.URL[1] != "nats://b:2" {
		t.Errorf("got\n%v", s)
	}
}

func TestAFlagCanClearWhatMayBeEmptyAndNothingElse(t *testing.T) {
	t.Parallel()
	s, err := LoadServe(flagsOf(t, serve, "--redis.master="), []string{"TARRY_REDIS_MASTER=main"})
	if err != nil || s.Redis.Master != "" {
		t.Errorf("redis.master: got %q, %v", s.Redis.Master, err)
	}
	for _, row := range settings() {
		for _, of := range row.commands() {
			_, err := load(of, flagsOf(t, of, row.flag()+"="), needs(of, row.name))
			switch {
			case row.fallback != "":
				mustHave(t, err, row.name+`: "" is empty (limit: `+row.limit.words()+"), from "+row.flag())
			case required(of, row.name):
				mustHave(t, err, row.name+`: "" is not set (limit: `+row.limit.words()+"), from "+row.flag())
			case of == serve && row.name == "data":
				mustHave(t, err, row.name+`: "" is not set, and store: memory needs it`)
			case err != nil:
				t.Errorf("%s: %v", row.name, err)
			}
		}
	}
}

// A client that takes an instance's address from its settings takes its token from there too. No other server gets it.
func TestAClientTakesTheTokenOfTheInstanceThatItTakesTheAddressOf(t *testing.T) {
	t.Parallel()
	environ := []string{"TARRY_HTTP_LISTEN=127.0.0.1:7080", "TARRY_HTTP_TOKEN=0123456789abcdef"}
	for _, c := range []struct{ more, server, token string }{
		{"TARRY_TIMEOUT=5s", "http://127.0.0.1:7080", "0123456789abcdef"},
		{"TARRY_TOKEN=mine", "http://127.0.0.1:7080", "mine"},
		{"TARRY_SERVER=http://b:2", "http://b:2", ""},
	} {
		got, err := LoadClient(nil, append([]string{c.more}, environ...))
		if err != nil || got.Server != c.server || got.Token.Reveal() != c.token {
			t.Errorf("%s: %s with %q, %v", c.more, got.Server, got.Token.Reveal(), err)
		}
	}
}

func TestOneEnvironmentAndOneFileServeTheDaemonAndItsClients(t *testing.T) {
	t.Parallel()
	file := write(t,
		"redis: {addrs: [a:1]}\nserver: http://b:2\njournal: {mode: sync, dsn: 'sqlite:c.db', keep: 24h}\n")
	environ := []string{"TARRY_CONFIG=" + file, "TARRY_NATS_URL=nats://a:1", "TARRY_TOKEN=x",
		"TARRY_NATS_LISTEN=127.0.0.1:9"}
	s, err := LoadServe(nil, environ)
	if err != nil || s.Redis.Addrs[0] != "a:1" {
		t.Errorf("serve: got %v, %v", s.Redis.Addrs, err)
	}
	c, err := LoadClient(nil, environ)
	if err != nil || c.Server != "http://b:2" || c.Token.Reveal() != "x" {
		t.Errorf("client: got %v, %v", c, err)
	}
	m, err := LoadMigrate(nil, environ)
	if err != nil || m.Namespace != "default" || m.Journal.DSN.Reveal() != "sqlite:c.db" ||
		s.Journal.DSN != m.Journal.DSN {
		t.Errorf("migrate: got %v, %v", m, err)
	}
	_, err = LoadDev(nil, environ)
	mustHave(t, err, "redis.addrs: is a setting of tarry serve, not of tarry dev, from "+file,
		"journal.dsn: is a setting of tarry serve and tarry migrate, not of tarry dev, from "+file)
	_, err = LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, "nats: {listen: 127.0.0.1:1}")})
	mustHave(t, err, `nats.listen: "127.0.0.1:1" needs store: memory (limit: remove it), from `)
	if !errors.Is(err, ErrRefused) {
		t.Errorf("%v is no ErrRefused", err)
	}
}
