package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	file := write(t, "buckets: 0\nnamespace: Orders\nredis: {addr: a:1}\nhttp: {listen: 0.0.0.0:80}\n")
	_, err := LoadServe(flagsOf(t, serve, "--claim.batch=2001", "--config="+file),
		[]string{"TARRY_ZOOKEEPER_SESSION=1s", "TARRY_LOG_LEVL=info"})
	want := []string{
		`TARRY_LOG_LEVL: is not a setting of tarry (did you mean TARRY_LOG_LEVEL?)`,
		`redis.addr: is not a setting of tarry (did you mean redis.addrs?), from ` + file,
		`namespace: "Orders" has 'O' at position 1 (limit: 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or ` +
			`digit), from ` + file,
		`zookeeper.session: "1s" is below 2s (limit: 2s to 40s), from TARRY_ZOOKEEPER_SESSION`,
		`buckets: "0" is below 1 (limit: 1 to 1024), from ` + file,
		`claim.batch: "2001" is above 2000 (limit: 1 to 2000), from --claim.batch`,
		`http.listen: "0.0.0.0:80" lets other machines in without a token (limit: a loopback address, or ` +
			`http.token, or http.tokens, or http.insecure: true), from ` + file,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	if p, ok := errors.AsType[*Problem](err); !ok || p.Name != "TARRY_LOG_LEVL" || !errors.Is(err, ErrRefused) {
		t.Errorf("got %#v, want the first problem and ErrRefused", p)
	}
}

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	file, tokens := write(t, "x"), write(t, "tokens: ["+oneToken+"]")
	memory := "--store=memory --data=" + t.TempDir() + " --journal.mode=sync --journal.dsn=sqlite:x"
	for _, c := range []struct {
		of   command
		args string
		want string // nothing: accepted
	}{
		{serve, "--http.listen=:80", `http.listen: ":80" lets other machines in without a token`},
		{serve, "--http.listen=a.example:80", `lets other machines in without a token`},
		{serve, "--http.listen=:80 --http.insecure", ""},
		{serve, "--http.listen=:80 --http.token=0123456789abcdef", ""},
		{serve, "--http.listen=:80 --http.token=short", `http.token: "***" is shorter than 16`},
		{serve, "--http.listen=:80 --http.tokens_file=" + tokens, ""},
		{serve, "--http.listen=:80 --http.tokens_file=" + file, "http.tokens_file: "},
		{serve, "--http.listen=localhost:80", ""},
		{serve, "--http.tls.cert=" + file, "http.tls.cert: "},
		{serve, "--http.tls.key=" + file, "needs http.tls.cert (limit: both or neither)"},
		{serve, "--http.tls.ca=" + file, "needs http.tls.cert"},
		{serve, "--http.tls.cert=" + file + " --http.tls.key=" + file, ""},
		{serve, "--http.read_timeout=4s", `http.read_timeout: "4s" is below http.header_timeout (limit: at least ` +
			`5s), from --http.read_timeout`},
		{serve, "--http.listen=127.9.9.9:80", ""},
		{serve, "--http.listen=[::ffff:127.0.0.1]:80", ""},
		{serve, "--nats.user=a",
			"nats.user: \"a\" needs nats.password (limit: both or neither), from --nats.user"},
		{serve, "--nats.password=a", "nats.password: \"***\" needs nats.user"},
		{serve, "--nats.user=a --nats.password=b --nats.token=c",
			`nats.token: "***" conflicts with nats.user (limit: one of nats.user, nats.token and nats.creds)`},
		{serve, "--nats.token=c --nats.creds=" + file, "conflicts with nats.token"},
		{serve, "--nats.tls.cert=" + file, "needs nats.tls.key"},
		{serve, "--nats.tls.key=" + file, "needs nats.tls.cert"},
		{serve, "--redis.username=a", "needs redis.password"},
		{serve, "--redis.password=a", ""},
		{serve, "--redis.db=1 --redis.addrs=a:1,b:1",
			`redis.db: "1" with several redis.addrs and no redis.master, which means a Cluster ` +
				`(limit: 0 in a Cluster)`},
		{serve, "--redis.db=1 --redis.addrs=a:1,b:1 --redis.master=m", ""},
		{serve, "--redis.db=0 --redis.addrs=a:1,b:1", ""},
		{serve, "--zookeeper.username=a", "needs zookeeper.password"},
		{serve, "--zookeeper.password=a", "needs zookeeper.username"},
		{serve, "--zookeeper.session=4s", ""},
		{serve, "--zookeeper.session=3999ms",
			`publish.timeout: "2s" is above half of zookeeper.session (limit: at most 1.9995s)`},
		{serve, "--publish.timeout=3s", ""},
		{serve, "--publish.timeout=3001ms",
			"is above half of zookeeper.session (limit: at most 3s), from --publish.timeout"},
		{serve, "--stop.timeout=2s", ""},
		{serve, "--publish.pending=8 --buckets=8", ""},
		{serve, "--publish.pending=7 --buckets=8", `publish.pending: "7" is below buckets: each needs room for one ` +
			`message in flight (limit: at least 8)`},
		{serve, "--names.keep=721h", "names.keep: \"721h\" is above journal.keep: the journal does not know names " +
			"for longer (limit: at most 720h), from --names.keep"},
		{serve, "--stop.timeout=1s", `stop.timeout: "1s" is below publish.timeout (limit: at least 2s)`},
		{serve, "--journal.mode=sync",
			`journal.mode: "sync" needs journal.dsn (limit: off without it), from --journal.mode`},
		{serve, "--journal.mode=async --journal.dsn=", `journal.mode: "async" needs journal.dsn`},
		{serve, "--journal.mode=sync --journal.dsn=me@tcp(a:1)/b", ""},
		{serve, "--journal.mode=async --journal.dsn=sqlite:x", ""},
		{serve, "--journal.mode=off --journal.dsn=sqlite:x", ""},
		{serve, "--journal.mode=sync --journal.dsn=nowhere", `journal.dsn: "***" names no database`},
		{serve, "--journal.dsn=sqlite:x", `journal.mode: "off" is only its default, and journal.dsn is set (limit: ` +
			`sync, async, or an explicit off)`},
		{serve, "--journal.mode=sync --journal.dsn=mysql://me@a:1/b", `journal.dsn: "***" is not of this form ` +
			`(limit: user:password@tcp(host:port)/database, or sqlite: and a file`},
		{migrate, "--journal.dsn=me:x@tcp(a:1/b", `journal.dsn: "***" is not of this form`},
		{serve, "--journal.mode=never", `journal.mode: "never" is not one of the choices`},
		{serve, memory, ""},
		{serve, memory + " --nats.url=nats://a:1 --nats.tls.ca=" + file, ""},
		{serve, memory + " --nats.listen=:80 --nats.user=a --nats.password=b", ""},
		{serve, memory + " --nats.listen=:80 --nats.token=a", ""},
		{serve, memory + " --nats.listen=:80 --http.insecure", ""},
		{serve, memory + " --nats.listen=:80", `nats.listen: ":80" lets other machines in without a token (limit: a ` +
			`loopback address, or nats.user, or nats.token, or http.insecure: true)`},
		{serve, memory + " --nats.listen=:80 --nats.url=nats://a:1",
			`nats.listen: ":80" has no effect with nats.url (limit: remove it)`},
		{serve, memory + " --nats.creds=" + file,
			"is for a NATS of your own, which nats.url names (limit: remove it)"},
		{serve, memory + " --nats.intake.replicas=3",
			`nats.intake.replicas: "3" is for a NATS of your own, which nats.url names (limit: 1)`},
		{serve, memory + " --data=",
			`data: "" is not set, and store: memory needs it (limit: a directory, made if missing)`},
		{serve, memory + " --journal.mode=async", `journal.mode: "async" conflicts with store: memory, which keeps ` +
			`only what the journal has (limit: sync)`},
		{serve, memory + " --journal.dsn=a@tcp(b:1)/c",
			`journal.dsn: "***" conflicts with store: memory (limit: sqlite: and a file`},
		{serve, memory + " --journal.dsn=", `journal.mode: "sync" needs journal.dsn`},
		{serve, memory + " --redis.addrs=a:1", `redis.addrs: "a:1" has no effect with store: memory, which uses ` +
			`neither Redis nor ZooKeeper (limit: remove it), from --redis.addrs`},
		{serve, memory + " --redis.password=a", `redis.password: "***" has no effect with store: memory`},
		{serve, memory + " --zookeeper.session=8s", `zookeeper.session: "8s" has no effect with store: memory`},
		{serve, "--data=" + t.TempDir(), "needs store: memory (limit: remove it), from --data"},
		{serve, "--nats.listen=127.0.0.1:1",
			`nats.listen: "127.0.0.1:1" needs store: memory (limit: remove it)`},
		{serve, "--seeds.listen=127.0.0.1:1", `seeds.listen: "127.0.0.1:1" needs seeds.token`},
		{serve, "--seeds.token=old", `seeds.token: "old" needs seeds.listen`},
		{dev, "--seeds.listen=[::1]:80 --seeds.token=old",
			`seeds.token: "old" is none of http.tokens (limit: the name of one of them)`},
		{dev, "--seeds.listen=:80 --seeds.token=shop --http.tokens_file=" + write(t, "tokens: ["+oneToken+"]"),
			`seeds.listen: ":80" lets other machines in without a token (limit: a loopback address, or ` +
				`seeds.insecure: true)`},
		{serve, "--store=disk", `store: "disk" is not one of the choices`},
		{migrate, "", `journal.dsn: "" is not set (limit: user:password@tcp(host:port)/database, or sqlite: and a ` +
			`file; up to 2048 bytes)`},
		{migrate, "--journal.dsn=nowhere", `journal.dsn: "***" names no database`},
		{migrate, "--journal.dsn=sqlite:x", ""},
		{dev, "--http.listen=:80", `http.listen: ":80" lets other machines in without a token`},
		{dev, "--http.listen=:80 --http.token=0123456789abcdef", ""},
		{dev, "--http.listen=:80 --http.tokens_file=" + tokens, ""},
		{dev, "--nats.listen=:80",
			`nats.listen: ":80" lets other machines in without a token (limit: a loopback address, or ` +
				`http.insecure: true)`},
		{dev, "--nats.listen=:80 --http.token=0123456789abcdef", "nats.listen: "},
		{dev, "--nats.listen=:80 --http.tokens_file=" + tokens, "nats.listen: "},
		{dev, "--nats.listen=:80 --http.insecure", ""},
	} {
		_, err := load(c.of, flagsOf(t, c.of, strings.Fields(c.args)...), nil)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want %s", c.args, err, c.want)
		}
	}
}

func TestUnknownNamesAreRefusedWithTheNearestOne(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"htpp: {listen: x}":  "htpp.listen: is not a setting of tarry (did you mean http.listen?)",
		"listen: x":          "listen: is not a setting of tarry, from",
		"nats: {urls: [a]}":  "nats.urls: is not a setting of tarry (did you mean nats.url?)",
		"log_level: debug":   "log_level: is not a setting of tarry (did you mean log.level?)",
		"zk: {servers: [a]}": "zk.servers: is not a setting of tarry (did you mean zookeeper.servers?)",
		"nats: {intake: {maxbytes: 1}}": "nats.intake.maxbytes: is not a setting of tarry (did you mean " +
			"nats.intake.max_bytes?)",
		"colour: blue":                  "colour: is not a setting of tarry, from",
		"colour:":                       "colour: is not a setting of tarry, from",
		"colour: {}":                    "colour: is not a setting of tarry, from",
		"config: other.yaml":            "config: is not a setting of tarry",
		"1: x":                          "1: is not a setting of tarry",
		"http: {1: x, true: y}":         "http.1: is not a setting of tarry",
		"\"a b\\n\": x":                 `"a b\n": is not a setting of tarry`,
		"\"\": x":                       `"": is not a setting of tarry`,
		"http.listen: x":                "http.listen: is to be nested: http: {listen: ...}",
		"nats: {tls.ca: x}":             "nats.tls.ca: is to be nested: nats: {tls: {ca: ...}}",
		"http.lisen: x":                 "http.lisen: is not a setting of tarry (did you mean http.listen?)",
		"http: x":                       "http: is a section, with settings below it, and takes no value",
		"http: [x]":                     "http: is a section, with settings below it, and takes no value",
		"nats: {tls: true}":             "nats.tls: is a section, with settings below it, and takes no value",
		"journal: {dns: x}":             "journal.dns: is not a setting of tarry (did you mean journal.dsn?)",
		"journal: {modes: x}":           "journal.modes: is not a setting of tarry (did you mean journal.mode?)",
		"journal: sync":                 "journal: is a section, with settings below it, and takes no value",
		"journal: {dsn: 5}":             `journal.dsn: "***" is not text to YAML: put it in quotes`,
		"topic: [{pattern: x}]":         "topic: is not a setting of tarry (did you mean topics?)",
		"http: {tokes: [{name: x}]}":    "http.tokes: is not a setting of tarry (did you mean http.token?)",
		"http.tokens: [{name: x}]":      "http.tokens: is to be nested: http: {tokens: ...}",
		"namespace: {a: b}":             `namespace: "{...}" is a section, not a value`,
		"namespace: [a]":                `namespace: "[...]" is a list, not one value`,
		"namespace: 5":                  `namespace: "5" is not text to YAML: put it in quotes`,
		"namespace: true":               `namespace: "true" is not text to YAML: put it in quotes`,
		"redis: {password: 0123}":       `redis.password: "***" is not text to YAML: put it in quotes`,
		"redis: {addrs: [1]}":           `redis.addrs: "[...]" has an item that is not text`,
		"redis: {addrs: []}":            `redis.addrs: "" is empty`,
		"redis: {tls: 1}":               `redis.tls: "1" is of another kind (limit: true or false)`,
		"buckets: 4.5":                  `buckets: "4.5" is of another kind (limit: 1 to 1024)`,
		"buckets: true":                 `buckets: "true" is of another kind`,
		"buckets: 99999999999999999999": `buckets: "1e+20" is of another kind`,
		"zookeeper: {session: 6}": `zookeeper.session: "6" has no unit (as in 500ms, 6s, 10m) ` +
			`(limit: 2s to 40s)`,
		"http: {listen: ''}":             `http.listen: "" is empty`,
		"- a":                            "is not a YAML mapping of names to values",
		"just text":                      "is not a YAML mapping of names to values",
		"a: b: c":                        "is not YAML: mapping values are not allowed in this context",
		"a: 1\nb: [":                     "is not YAML at line 2",
		"\tx: 1":                         "is not YAML: found character that cannot start any token",
		"buckets: 1\nbuckets: 2":         "has a key twice at line 2",
		"buckets: 1\n---\nbuckets: 2":    "has more than one YAML document",
		"http: {listen: 'a'}\nhttp: {}":  "has a key twice at line 2",
		"a: &x [*x]":                     "is not YAML: unknown anchor",
		"buckets: 4\nlog: {level: '\x01": "is not YAML: control characters are not allowed",
	} {
		_, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, file)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q: got %v, want %s", file, err, want)
		}
	}
	for env, want := range map[string]string{
		"TARRY_HTTP_LISEN=x":   "TARRY_HTTP_LISEN: is not a setting of tarry (did you mean TARRY_HTTP_LISTEN?)",
		"TARRY_HTTPLISTEN=x":   "(did you mean TARRY_HTTP_LISTEN?)",
		"TARRY_http_listen=x":  "(did you mean TARRY_HTTP_LISTEN?)",
		"TARRY_CONFG=x":        "(did you mean TARRY_CONFIG?)",
		"TARRY_JOURNAL_DNS=x":  "TARRY_JOURNAL_DNS: is not a setting of tarry (did you mean TARRY_JOURNAL_DSN?)",
		"TARRY_TOPICS=x":       "TARRY_TOPICS: is a list of sections, which only a file can hold",
		"TARRY_HTTP_TOKENS=x":  "TARRY_HTTP_TOKENS: is a list of sections, which only a file can hold",
		"TARRY_NATS_PORT=4222": "TARRY_NATS_PORT: is not a setting of tarry",
		"TARRY_REDIS_URL=x":    "TARRY_REDIS_URL: is not a setting of tarry (did you mean TARRY_NATS_URL?)",
	} {
		_, err := LoadServe(nil, []string{env})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrRefused) {
			t.Errorf("environment %q: got %v, want %s", env, err, want)
		}
		if name, _, _ := strings.Cut(env, "="); !slices.Contains([]string{"TARRY_TOPICS", "TARRY_HTTP_TOKENS"}, name) {
			if _, err := LoadClient(nil, []string{env}); err != nil { // no command of the client stops for it
				t.Errorf("environment %q: the client commands say %v", env, err)
			}
		}
	}
	// What is near to none may be somebody else's.
	others := []string{"TARRY_URL=x", "TARRY_FROBNICATE=", "TARRY_=x", "TARRY_SERVICE_PORT=http", "TARRY_PORT_X_TCP=1",
		"TARRY_PORT=tcp://10.0.0.1:80", "PATH=x", "TARRY_LOG_LEVEL=debug"}
	if _, err := LoadServe(nil, others); err != nil {
		t.Errorf("%v: %v", others, err)
	}
	if got, want := Strangers(others), []string{"TARRY_", "TARRY_FROBNICATE", "TARRY_PORT_X_TCP", "TARRY_SERVICE_PORT",
		"TARRY_URL"}; !slices.Equal(got, want) {
		t.Errorf("strangers are %v, want %v", got, want)
	}
}

func TestManyUnknownNamesAreToldInBrief(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for i := range 26 * 26 {
		file.WriteString("wrong" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ": 1\n")
	}
	_, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, file.String())})
	mustHave(t, err, "wrongaa: is not", "...: and 656 further unknown names")
	if n := strings.Count(err.Error(), "\n"); n != maxUnknown {
		t.Errorf("got %d lines, want %d", n+1, maxUnknown+1)
	}
	_, err = LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, strings.Repeat("x", 1000)+": 1\n")})
	mustHave(t, err, "xxx...: is not a setting of tarry")
}

func TestAFileThatIsMissingOrTooLargeIsRefusedAlone(t *testing.T) {
	t.Parallel()
	_, err := LoadServe(flagsOf(t, serve, "--config=none.yaml", "--buckets=0"), []string{"TARRY_BUCKET=1"})
	want := "TARRY_BUCKET: is not a setting of tarry (did you mean TARRY_BUCKETS?)\n" +
		`config: "none.yaml" cannot be read: no such file or directory, from --config`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_, err = LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, strings.Repeat("# full\n", maxFile/7+1))})
	mustHave(t, err, "is larger than 1MiB")
	if _, err = LoadServe(nil,
		[]string{"TARRY_CONFIG=" + write(t, strings.Repeat("# full\n", maxFile/7))}); err != nil {
		t.Errorf("just below the limit: %v", err)
	}
}

func TestVariablesOfKubernetesAreSkipped(t *testing.T) {
	t.Parallel()
	_, err := LoadServe(nil, []string{
		"TARRY_SERVICE_HOST=10.0.0.1", "TARRY_SERVICE_PORT=7070", "TARRY_SERVICE_PORT_HTTP=7070",
		"TARRY_PORT=tcp://10.0.0.1:7070",
		"TARRY_PORT_7070_TCP=tcp://10.0.0.1:7070", "TARRY_PORT_7070_TCP_PROTO=tcp", "TARRY_PORT_7070_TCP_PORT=7070",
		"TARRY_PORT_7070_TCP_ADDR=10.0.0.1", "TARRY_HTTP_SERVICE_HOST=10.0.0.2", "TARRY_HTTP_PORT=tcp://10.0.0.2:80",
		"TARRY_HTTP_PORT_80_UDP=udp://10.0.0.2:80",
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFlagsAreHelpfulAndRefuseWithTheRest(t *testing.T) {
	t.Parallel()
	fs := flagsOf(t, serve, "--http.insecure", "--redis.addrs=a:1", "--redis.addrs", "b:2,c:3")
	s, err := LoadServe(fs, nil)
	if err != nil || !s.HTTP.Insecure || strings.Join(s.Redis.Addrs, " ") != "a:1 b:2 c:3" {
		t.Errorf("got %v %v, %v", s.HTTP.Insecure, s.Redis.Addrs, err)
	}
	help := fs.FlagUsages()
	for _, want := range []string{
		"--config file ", "--zookeeper.session duration ", "2s to 40s (default 6s)", "--redis.addrs host:port,...",
		"--http.insecure ", "(default the host's name)", "better in the file or the environment",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
	fs = pflag.NewFlagSet("tarry", pflag.ContinueOnError)
	AddServeFlags(fs)
	err = FlagError(fs, fs.Parse([]string{"--http.lisen=x"}))
	if want := "unknown flag: --http.lisen (did you mean --http.listen?)"; err.Error() != want ||
		!errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want %s", err, want)
	}
	err = FlagError(fs, fs.Parse([]string{"--http.token"}))
	if want := "flag needs an argument: --http.token"; err.Error() != want || !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTheFlagsOfMigrateAreItsOwn(t *testing.T) {
	t.Parallel()
	fs := flagsOf(t, migrate, "--journal.dsn", "sqlite:x", "--namespace=orders", "--log.level=debug")
	m, err := LoadMigrate(fs, nil)
	if err != nil || m.Namespace != "orders" || m.Journal.DSN.Reveal() != "sqlite:x" ||
		m.Log != (Log{Level: "debug", Format: "auto"}) || m.Data != "" {
		t.Errorf("got %v, %v", m, err)
	}
	if shown := fmt.Sprintf("%+v", m); !strings.Contains(shown, "Namespace:orders") ||
		!strings.Contains(shown, "DSN:***") {
		t.Errorf("it shows as\n%s", shown)
	}
	help := fs.FlagUsages()
	for _, want := range []string{"--config file ", "--journal.dsn secret ", "better in the file or the environment"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
	for _, other := range []string{"--redis", "--journal.mode", "--http.listen", "--nats.listen", "--server"} {
		if strings.Contains(help, other) {
			t.Errorf("the help has %s:\n%s", other, help)
		}
	}
	err = FlagError(fs, fs.Parse([]string{"--journal.dns=x"}))
	if want := "unknown flag: --journal.dns (did you mean --journal.dsn?)"; err.Error() != want ||
		!errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = LoadMigrate(fs, []string{
		"TARRY_CONFIG=" + write(t, "journal: {mode: never, keep: soon}\nredis: {addrs: []}\nnats: {listen: x}\n")})
	if err != nil {
		t.Errorf("what is not of migrate was looked at: %v", err)
	}
	_, err = LoadMigrate(fs, []string{"TARRY_JOURNL_DSN=x", "TARRY_REDIS_ADDRS=-"})
	if want := "TARRY_JOURNL_DSN: is not a setting of tarry (did you mean TARRY_JOURNAL_DSN?)"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAHostNameThatIsNoInstanceNameIsRefused(t *testing.T) {
	t.Parallel()
	for want, hostname := range map[string]func() (string, error){
		`instance: "my host" is the host's name, which has ' ' at position 3 (limit: 1 to`: func() (string, error) {
			return "my host", nil
		},
		`instance: "" is the host's name, which is empty`: func() (string, error) {
			return "", nil
		},
		`instance: "" is not set, and the host has no name: gone`: func() (string, error) {
			return "", errors.New("gone")
		},
	} {
		for _, given := range []string{"", "one"} {
			l := newLoader(serve)
			l.hostname = hostname
			s, err := l.serve(l.given(flagsOf(t, serve, "--instance="+given), nil))
			if given == "" {
				mustHave(t, err, want)
			} else if err != nil || s.Instance != given {
				t.Errorf("an instance that is set: got %q, %v", s.Instance, err)
			}
		}
	}
}
