package config

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// edge is what a limit must let through, and what it must refuse with which words.
type edge struct {
	good []string
	bad  map[string]string
}

func edgesOfAddress(lowest string) edge {
	e := edge{
		good: []string{"127.0.0.1:" + lowest, "[::1]:65535", "localhost:7070", "a-b.example:1"},
		bad: map[string]string{
			"localhost":                     "has no port",
			"[::1]":                         "has no port",
			"127.0.0.1:65536":               "has no port from " + lowest + " to 65535",
			"127.0.0.1:-1":                  "has no port from " + lowest,
			"127.0.0.1:+1":                  "has no port from " + lowest,
			"127.0.0.1:":                    "has no port from " + lowest,
			"127.0.0.1:http":                "has no port from " + lowest,
			"::1:7070":                      "is not host:port",
			"http://localhost:80":           "is not host:port",
			"a b:1":                         `has ' ' at position 2 of its host name`,
			"a\x00:1":                       "has a control character",
			strings.Repeat("a", 254) + ":1": "has a host name longer than 253",
			"me:pass@host:1":                "holds a user, password or token",
		},
	}
	if lowest == "1" {
		e.bad["127.0.0.1:0"] = "has no port from 1"
		e.bad["0.0.0.0:1"] = "names no host"
		e.bad["[::]:1"] = "names no host"
		e.bad[":1"] = "names no host"
	} else {
		e.good = append(e.good, "0.0.0.0:1", ":7070", "[::]:0")
	}
	return e
}

func edgesOfText(max int) edge {
	return edge{
		good: []string{"x", "pässwörd with spaces", strings.Repeat("x", max)},
		bad: map[string]string{
			strings.Repeat("x", max+1): "is longer than " + strconv.Itoa(max),
			"a\nb":                     "has a control character",
			"a\xff":                    "is not UTF-8",
		},
	}
}

func edgesOfFile(file, dir string) edge {
	return edge{
		good: []string{file},
		bad: map[string]string{
			filepath.Join(dir, "none"): "cannot be read: no such file or directory",
			dir:                        "is not a file",
			"a\x01":                    "has a control character",
			strings.Repeat("a", 4097):  "is longer than 4096",
		},
	}
}

func edgesOfTokensFile(t *testing.T, dir string) edge {
	t.Helper()
	e := edgesOfFile(write(t, "tokens: ["+oneToken+"]"), dir)
	for content, phrase := range map[string]string{
		"":                                 "holds no tokens",
		"tokens:\n":                        "holds no tokens",
		"tokens: []\n":                     "holds no tokens",
		"- " + oneToken:                    "is not a YAML mapping",
		"tokens: [" + oneToken + "]\na: 1": "holds more than tokens: a",
		"tokens: [":                        "is not YAML",
	} {
		e.bad[write(t, content)] = phrase
	}
	return e
}

func edgesOfLabel(max int) edge {
	return edge{
		good: []string{"a", "A.b_c-9", strings.Repeat("a", max)},
		bad: map[string]string{
			strings.Repeat("a", max+1): "is longer than " + strconv.Itoa(max),
			"a b":                      `has ' ' at position 2`,
			"é":                        `has 'é' at position 1`,
		},
	}
}

// edges are those of the settings whose limit is not a range, a choice or a toggle.
func edges(t *testing.T) map[string]edge {
	t.Helper()
	file, dir := write(t, "x"), t.TempDir()
	items := func(n int, one string) string {
		var all []string
		for i := range n {
			all = append(all, one+strconv.Itoa(i+1))
		}
		return strings.Join(all, ",")
	}
	user := edgesOfText(256)
	user.bad["a:b"] = "has a colon"
	return map[string]edge{
		"namespace": {
			good: []string{"a", "9", "a_b-c", strings.Repeat("a", 32)},
			bad: map[string]string{
				strings.Repeat("a", 33): "is longer than 32",
				"-a":                    `has '-' at position 1`,
				"Orders":                `has 'O' at position 1`,
				"a.b":                   `has '.' at position 2`,
				"a{b":                   `has '{' at position 2`,
			},
		},
		"instance":          edgesOfLabel(64),
		"http.listen":       edgesOfAddress("0"),
		"http.probe_listen": edgesOfAddress("0"),
		"seeds.listen":      edgesOfAddress("0"),
		"seeds.token":       edgesOfLabel(64),
		"tls.ca":            edgesOfFile(file, dir),
		"tls.cert":          edgesOfFile(file, dir),
		"tls.key":           edgesOfFile(file, dir),
		"tls.server_name": {good: []string{"a", "tarry.example.com"},
			bad: map[string]string{"a:7070": "has ':' at position 2"}},
		"http.hosts": {
			good: []string{"a", "tarry.example.com,b_1", strings.Repeat("a", 253)},
			bad: map[string]string{"a:7070": `has ':' at position 2`, "http://a": `has ':' at position 5`,
				"a,": "has an empty item 2", "a b": `has ' ' at position 2`,
				strings.Repeat("a", 254): "is longer than 253", "a,b,a": `has "a" twice`},
		},
		"http.proxies": {
			good: []string{"10.0.0.1", "10.0.0.0/8,fd00::/8", "::1"},
			bad: map[string]string{"proxy": "is neither an IP address nor a network",
				"10.0.0.1/33": "is neither an IP address nor a network", "10.0.0.1,": "has an empty item 2"},
		},
		"webhook.allow": {
			good: []string{"10.0.0.1", "10.0.0.0/8,fd00::/8"},
			bad:  map[string]string{"hooks.example.com": "is neither an IP address nor a network"},
		},
		"http.token": {
			good: []string{strings.Repeat("x", 16), strings.Repeat("~", 512)},
			bad: map[string]string{
				strings.Repeat("x", 15):        "is shorter than 16",
				strings.Repeat("x", 513):       "is longer than 512",
				strings.Repeat("x", 16) + " y": "has a character that a header cannot carry",
				strings.Repeat("ü", 16):        "has a character that a header cannot carry",
			},
		},
		"http.tokens_file": edgesOfTokensFile(t, dir),
		"http.tls.cert":    edgesOfFile(file, dir),
		"http.tls.key":     edgesOfFile(file, dir),
		"http.tls.ca":      edgesOfFile(file, dir),
		"retry": {
			good: []string{"0", "none", "0,2m, 10m*5", "exp(1s,1h,10)~20%", strings.Repeat("1ms,2ms,", 49) + "1ms,2ms"},
			bad: map[string]string{
				"soon":           "has a ",
				"1m~99%":         "ends in the jitter ",
				"1s*101":         "has more delays than the limit of 100",
				"me:secret@host": "is no list of delays",
				strings.Repeat("123456ms,1ms,", 49) + "1s": "is longer than 512 bytes",
			},
		},
		"dead.keep": {
			good: []string{"0", "1h", "876000h"},
			bad: map[string]string{"59m": "is below 1h", "876001h": "is above 876000h", "1": "has no unit",
				"-0": "is below 1h", "never": "is not a duration"},
		},
		"names.keep": {
			good: []string{"0", "1h", "876000h"},
			bad: map[string]string{"59m": "is below 1h", "876001h": "is above 876000h", "1": "has no unit",
				"never": "is not a duration"},
		},
		"peer.advertise": edgesOfAddress("1"),
		"peer.listen": func() edge {
			e := edgesOfAddress("0")
			e.good, e.bad["on"] = append(e.good, "off"), "has no port"
			return e
		}(),
		"nats.url": {
			good: []string{"nats://a:1", "tls://[::1]:4222", items(16, "nats://a:"), " nats://a:1 , nats://b:1 "},
			bad: map[string]string{
				items(17, "nats://a:"):     "has 17 items",
				"a:4222":                   "has no scheme",
				"http://a:4222":            "has another scheme",
				"nats://a":                 "has no port",
				"nats://:4222":             "names no host",
				"nats://a:1/x":             "is not host:port",
				"nats://a:1,,nats://b:1":   "has an empty item 2",
				"nats://a:1,nats://a:1":    `has "nats://a:1" twice`,
				"nats://a:1,b:1":           `has item "b:1", which has no scheme`,
				"nats://me:pass@host:4222": "holds a user, password or token",
				",":                        "has an empty item 1",
			},
		},
		"nats.listen": edgesOfAddress("0"),
		"nats.prefix": {
			good: []string{"d", "later.on", "Tarry", "tarry-in", "_x", strings.Repeat("a", 64)},
			bad: map[string]string{
				strings.Repeat("a", 65): "is longer than 64",
				"tarry":                 `lies under "tarry.", where requests to tarry go`,
				"tarry.in":              `lies under "tarry.", where requests to tarry go`,
				"$JS":                   `has '$' at position 1`,
				"$":                     `has '$' at position 1`,
				"_INBOX.x":              `starts with "_INBOX", where replies go`,
				"a.*":                   `has '*' at position 3`,
				"a.>":                   `has '>' at position 3`,
				"a..b":                  "has an empty token",
				".a":                    "has an empty token",
				"a.":                    "has an empty token",
				"a b":                   `has ' ' at position 2`,
				"a.$b":                  `has '$' at position 3`,
			},
		},
		"nats.user":      edgesOfText(256),
		"nats.password":  edgesOfText(512),
		"nats.token":     edgesOfText(512),
		"nats.creds":     edgesOfFile(file, dir),
		"nats.tls.ca":    edgesOfFile(file, dir),
		"nats.tls.cert":  edgesOfFile(file, dir),
		"nats.tls.key":   edgesOfFile(file, dir),
		"redis.username": edgesOfText(256),
		"redis.password": edgesOfText(512),
		"redis.master":   edgesOfLabel(128),
		"redis.addrs": {
			good: []string{"a:1", "[::1]:6379", items(64, "a:")},
			bad: map[string]string{
				items(65, "a:"): "has 65 items", "a": "has no port", "a:0": "has no port from 1", ":1": "names no host",
				"redis://:pass@a:1": "holds a user, password or token", "redis://a:1": "is not host:port",
			},
		},
		"zookeeper.servers": {
			good: []string{"a:1", items(16, "a:")},
			bad: map[string]string{
				items(17, "a:"): "has 17 items", "a": "has no port", "a:2181/chroot": "is not host:port",
				"a:1,a:1": `has "a:1" twice`,
			},
		},
		"zookeeper.username": user,
		"zookeeper.password": edgesOfText(512),
		"journal.dsn": {
			good: []string{
				"root@/tarry", "ann:secret@tcp(db.example:3306)/tarry?tls=true",
				"ann:a/b@c:d?e@unix(/run/mysqld/mysqld.sock)/tarry",
				"sqlite:x", "sqlite:/var/lib/tarry/journal.db", "sqlite:" + strings.Repeat("x", 2048-len("sqlite:")),
			},
			bad: map[string]string{
				"sqlite:" + strings.Repeat("x", 2049-len("sqlite:")): "is longer than 2048",
				"sqlite:":                          "names no file",
				"ann:secret@tcp(db.example:3306)":  "names no database",
				"ann:secret@tcp(db.example:3306)/": "names no database",
				"root@/?tls=true":                  "names no database",
				"journal.db":                       "names no database",
				"mysql://ann:secret@db/tarry":      "is not of this form",
				"ann:secret@tcp(db:3306/tarry":     "is not of this form",
				"ann@tcp(db:3306)/tarry?tls=none":  "is not of this form",
				"ann@tcp(db:3306)/tarry?timeout=5": "is not of this form",
				"root@/tar\nry":                    "has a control character",
				"root@/tarry\xff":                  "is not UTF-8",
			},
		},
		"data": {
			good: []string{dir, filepath.Join(dir, "made", "later")},
			bad:  map[string]string{file: "is not a directory", "a\x00": "has a control character"},
		},
		"server": {
			good: []string{"a:7070", "http://a", "https://[::1]:7070/", "http://a:65535/x/y"},
			bad: map[string]string{
				"a:70700":              "begins with neither http://",
				"nats://a:1":           "begins with neither http://",
				"http://":              "names no host",
				"http://a:0":           "has no port from 1",
				"http://a:":            "has no port from 1",
				"http://a:65536":       "has no port from 1",
				"http://a?b":           "has a query or a fragment",
				"http://a?":            "has a query or a fragment",
				"http://a#":            "has a query or a fragment",
				"http://a_b!/":         `has '!' at position 4 of its host name`,
				"http://a\n":           "has a control character",
				"http://[::1":          "is not a URL",
				"http://me:pass@a:443": "holds a user, password or token",
			},
		},
		"token": {
			good: []string{"x", strings.Repeat("x", 512)},
			bad: map[string]string{strings.Repeat("x", 513): "is longer than 512",
				"a b": "has a character that a header cannot carry"},
		},
	}
}

// edgesOf are the edges of a setting: from its range where it has one, which is where its words come from too.
func edgesOf(s setting, written map[string]edge) (edge, bool) {
	switch l := s.limit.(type) {
	case ranged[int]:
		return edge{
			good: []string{strconv.Itoa(l.min), strconv.Itoa(l.max), "0" + strconv.Itoa(l.max)},
			bad: map[string]string{
				strconv.Itoa(l.min - 1): "is below " + strconv.Itoa(l.min),
				strconv.Itoa(l.max + 1): "is above " + strconv.Itoa(l.max),
				"99999999999999999999":  "is above", "-99999999999999999999": "is below",
				"1.5": "is not a whole number", "many": "is not a whole number", "0x10": "is not a whole number",
			},
		}, true
	case ranged[int64]:
		return edge{
			good: []string{showSize(l.min), showSize(l.max), strconv.FormatInt(l.min, 10),
				strconv.FormatInt(l.max>>20, 10) + " MiB"},
			bad: map[string]string{
				strconv.FormatInt(l.min-1, 10): "is below " + showSize(l.min),
				strconv.FormatInt(l.max+1, 10): "is above " + showSize(l.max),
				"99999999999999999999":         "is above",
				"9223372036854775807TiB":       "is above",
				"-9223372036854775807TiB":      "is below",
				"8MB":                          "is not a size",
				"MiB":                          "is not a size",
				"1.5GiB":                       "is not a size",
			},
		}, true
	case ranged[time.Duration]:
		if l.zero != "" {
			break
		}
		return edge{
			good: []string{showSpan(l.min), showSpan(l.max)},
			bad: map[string]string{
				(l.min - time.Nanosecond).String(): "is below " + showSpan(l.min),
				(l.max + time.Nanosecond).String(): "is above " + showSpan(l.max),
				"-1s":                              "is below",
				"6":                                "has no unit",
				"0":                                "has no unit",
				"soon":                             "is not a duration",
				"NaN":                              "has no unit",
			},
		}, true
	case toggle:
		bad := map[string]string{}
		for _, word := range []string{"yes", "1", "TRUE"} {
			bad[word] = "is neither true nor false"
		}
		return edge{good: []string{"true", "false"}, bad: bad}, true
	case choice:
		bad := map[string]string{"other": "is not one of the choices",
			strings.ToUpper(s.fallback): "is not one of the choices"}
		return edge{good: l, bad: bad}, true
	}
	e, ok := written[s.name]
	return e, ok
}

func TestEveryLimitHoldsOnBothSides(t *testing.T) {
	t.Parallel()
	written, all := edges(t), examplesOf(t)
	// What must stand beside a setting for its whole range to pass the rules that join two of them.
	room := map[string][]string{
		"publish.timeout":     {"TARRY_ZOOKEEPER_SESSION=40s", "TARRY_STOP_TIMEOUT=10m"},
		"stop.timeout":        {"TARRY_PUBLISH_TIMEOUT=100ms"},
		"zookeeper.session":   {"TARRY_PUBLISH_TIMEOUT=100ms"},
		"publish.pending":     {"TARRY_BUCKETS=1"},
		"names.keep":          {"TARRY_JOURNAL_KEEP=876000h"},
		"http.listen":         {"TARRY_HTTP_INSECURE=true"},
		"http.read_timeout":   {"TARRY_HTTP_HEADER_TIMEOUT=100ms"},
		"http.header_timeout": {"TARRY_HTTP_READ_TIMEOUT=10m"},
		"nats.listen":         {"TARRY_HTTP_INSECURE=true"},
	}
	for _, s := range settings() {
		e, ok := edgesOf(s, written)
		if !ok || len(e.good) == 0 || len(e.bad) == 0 {
			t.Errorf("%s has no test of its limit", s.name)
			continue
		}
		environ := room[s.name]
		for i := 0; i < len(all[s.name].beside); i += 2 {
			environ = append(environ, setting{name: all[s.name].beside[i]}.env()+"="+all[s.name].beside[i+1])
		}
		for _, of := range s.commands() {
			environ := append(needs(of, s.name), environ...)
			for _, good := range e.good {
				got, err := load(of, flagsOf(t, of, s.flag()+"="+good), environ)
				if err != nil {
					t.Errorf("%s: good %q: %v", s.name, shorten(good), err)
					continue
				}
				if again, err := s.limit.read(value(t, got, s)); err != nil {
					t.Errorf("%s: good %q shows as %v, which is refused: %v", s.name, shorten(good), again, err)
				}
			}
			for bad, phrase := range e.bad {
				_, err := load(of, flagsOf(t, of, s.flag()+"="+bad), environ)
				if err == nil {
					t.Errorf("%s: bad %q is accepted", s.name, shorten(bad))
					continue
				}
				want := s.name + ": " + s.quote(bad) + " " + phrase
				if got := err.Error(); !strings.HasPrefix(got, want) ||
					!strings.HasSuffix(got, "(limit: "+s.limit.words()+"), from "+s.flag()) {
					t.Errorf("%s: bad %q: got\n%s\nwant\n%s ...", s.name, shorten(bad), got, want)
				}
				if !errors.Is(err, ErrRefused) {
					t.Errorf("%s: bad %q: no ErrRefused", s.name, bad)
				}
			}
		}
	}
}

func TestAFileThatMayNotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		// Root reads everything; a directory in place of the file is what it cannot read.
		_, err := LoadServe(nil, []string{"TARRY_CONFIG=" + t.TempDir()})
		mustHave(t, err, "config: ", "is not a file", "from TARRY_CONFIG")
		return
	}
	path := write(t, "namespace: x")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := LoadServe(nil, []string{"TARRY_CONFIG=" + path})
	mustHave(t, err, "config: ", "cannot be read: permission denied", "from TARRY_CONFIG")
}
