package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// hashOf is a hash that may stand in a file.
func hashOf(n int) string { return HashToken(fmt.Sprint("token", n)) }

var oneToken = "{name: shop, sha256: " + hashOf(1) + ", push: ['orders.>', 'mail.*'], read: true}"

// loaded is a file as the settings of tarry serve.
func loaded(t *testing.T, content string) (Serve, error) {
	t.Helper()
	return LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, content)})
}

func TestTokensComeFromTheFileAndFromAFileOfTheirOwn(t *testing.T) {
	t.Parallel()
	mounted := write(t, "tokens:\n  - name: ops\n    sha256: "+strings.ToUpper(hashOf(2))+
		"\n    operate: true\n    push: '>, a.*'\n    pull: []\n    read:\n")
	s, err := loaded(t, "http: {tokens: ["+oneToken+"], tokens_file: "+mounted+", listen: ':7070'}")
	if err != nil {
		t.Fatal(err)
	}
	want := []Token{
		{Name: "shop", SHA256: Secret(hashOf(1)), Push: []string{"orders.>", "mail.*"}, Read: true, Bodies: true},
		{Name: "ops", SHA256: Secret(strings.ToUpper(hashOf(2))), Push: []string{">", "a.*"}, Operate: true, Bodies: true},
	}
	if !reflect.DeepEqual(s.HTTP.Tokens, want) {
		t.Errorf("got %+v\nwant %+v", s.HTTP.Tokens, want)
	}
	for i, token := range s.HTTP.Tokens {
		if got := fmt.Sprintf("%x", token.Hash()); got != hashOf(i+1) {
			t.Errorf("%s: hash %s", token.Name, got)
		}
	}
	// What is shown hides the hashes: the token behind one may be a weak one.
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", s, s, s)} {
		if strings.Contains(strings.ToLower(text), hashOf(1)[:8]) ||
			strings.Contains(strings.ToLower(text), hashOf(2)[:8]) {
			t.Errorf("a hash shows in\n%s", text)
		}
	}
	if text := fmt.Sprintf("%+v", s); !strings.Contains(text, "Name:shop SHA256:***") {
		t.Errorf("it shows as\n%s", text)
	}
	d, err := LoadDev(nil, []string{"TARRY_CONFIG=" +
		write(t, "http: {tokens: ["+oneToken+"], listen: ':7070'}\ntopics: [{pattern: a}]\nretry: 1s\n")})
	if err != nil || len(d.HTTP.Tokens) != 1 || len(d.Topics) != 1 || d.Retry != "1s" {
		t.Errorf("dev: got %v, %v", d, err)
	}
	for _, of := range []command{client, migrate} { // theirs are others
		_, err := load(of, nil, append(needs(of, ""), "TARRY_CONFIG="+write(t, "http: {tokens: 5}\ntopics: 5\n")))
		if err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
}

func TestWeakTokensAreRefusedByName(t *testing.T) {
	t.Parallel()
	token := func(fields string) string { return "http: {tokens: [" + oneToken + ", {" + fields + "}]}" }
	var many, patterns []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("{name: t%d, sha256: %s, read: true}", i, hashOf(i)))
	}
	for i := range 101 {
		patterns = append(patterns, fmt.Sprintf("a%d", i))
	}
	for content, want := range map[string]string{
		"http: {tokens: 5}": "http.tokens: is not a list (limit: a " +
			"list of up to 1000 sections)",
		"http: {tokens: {a: b}}": "http.tokens: is not a list",
		"http: {tokens: [5]}": "http.tokens[0]: is not a token, which " +
			"is a section",
		"http: {tokens: [[a]]}": "http.tokens[0]: is not a token, which " +
			"is a section",
		"http: {tokens: [a, ~]}": "http.tokens[1]: is not a token",
		token("sha256: " + hashOf(2) +
			", read: true"): "http.tokens[1].name: is not set (limit: 1 to 64 of",
		token("name: a, read: true"): "http.tokens[1].sha256: is not set " +
			"(limit: 64 hex digits)",
		token("name: shop, read: true, sha256: " +
			hashOf(2)): `http.tokens[1].name: is "shop", like that of http.tokens[0]`,
		token("name: a, read: true, sha256: " +
			hashOf(1)): "http.tokens[1].sha256: is the same as that of http.tokens[0]",
		token("name: a, read: true, sha256: " +
			strings.ToUpper(hashOf(1))): "http.tokens[1].sha256: is the same as that of http.tokens[0]",
		token("name: a, sha256: " + hashOf(2)): "http.tokens[1]: has no right: none of " +
			"push, pull, read and operate",
		token("name: a, push: [], pull: [], read: false, operate: false, sha256: " +
			hashOf(2)): "http.tokens[1]: has no right",
		token("name: token, read: true, sha256: " + hashOf(
			2)): `http.tokens[1].name: ` +
			`"token" stands for http.token`,
		token("name: anonymous, read: true, sha256: " + hashOf(
			2)): `http.tokens[1].name: ` +
			`"anonymous" stands for`,
		token("name: a b, read: true, sha256: " + hashOf(
			2)): `http.tokens[1].name: ` +
			`"a b" has ' ' at position 2`,
		token("name: a, read: true, sha256: " +
			"hunter2hunter2"): `http.tokens[1].sha256: ` +
			`"***" is not a SHA-256 in hex (limit: 64 hex digits)`,
		token("name: a, read: true, sha256: " + hashOf(
			2)[1:]): "is not a SHA-256 in hex",
		token("name: a, read: true, sha256: " + hashOf(2) +
			"00"): "is not a SHA-256 in hex",
		token("name: a, read: true, sha256: " + strings.Repeat("1",
			64)): `http.tokens[1].sha256: ` +
			`"***" is not text to YAML: put it in quotes`,
		token("name: a, read: true, sha256: " + HashToken(
			"")): "is the hash of an empty token",
		token("name: a, read: 1, sha256: " + hashOf(
			2)): `http.tokens[1].read: ` +
			`"1" is of another kind (limit: true or false)`,
		token("name: a, raed: true, sha256: " + hashOf(
			2)): "http.tokens[1].raed: " +
			"is not a setting of a token (did you mean read?)",
		token("name: a, token: hunter2hunter2, sha256: " + hashOf(
			2)): "http.tokens[1].token: is " +
			"not a setting of a token",
		token("name: a, push: ['a.*', 5], sha256: " + hashOf(
			2)): `http.tokens[1].push: ` +
			`"[...]" has an item that is not text`,
		token("name: a, push: ['a.*', 'a..b'], sha256: " + hashOf(
			2)): `http.tokens[1].push: ` +
			`"a.*,a..b" has item "a..b", which has an empty token`,
		token("name: a, push: ['a.>.b'], sha256: " + hashOf(
			2)): `has ">" before its end`,
		token("name: a, push: ['a.b*'], sha256: " +
			hashOf(2)): `has a ` +
			`wildcard that is not a token of its own`,
		token("name: a, push: [a, a], sha256: " + hashOf(
			2)): `has "a" twice`,
		token("name: a, push: [$JS.API.x], sha256: " +
			hashOf(2)): `starts with "$", which ` +
			`belongs to the server`,
		token("name: a, push: [" + strings.Join(patterns, ",") + "], sha256: " +
			hashOf(2)): "has 101 items",
		token("name: a, push: {a: b}, sha256: " + hashOf(
			2)): `http.tokens[1].push: "{...}" is a section`,
		"http: {tokens: [" + strings.Join(many, ",") +
			"]}": "http.tokens: " +
			"has 1001 items (limit: a list of up to 1000 sections)",
		"http: {token: hunter2hunter2hunter2, tokens: [{name: a, read: true, sha256: " +
			HashToken("hunter2hunter2hunter2") + "}]}": "http.tokens[0].sha256: is the same as that of http.token",
		"http: {tokens: [" + oneToken + "], tokens_file: " + write(t, "tokens: ["+oneToken+"]") +
			"}": `tokens[0].name: is "shop", like that of http.tokens[0]`,
		"http: {tokens_file: " + write(t, "tokens: [{nmae: x}]") +
			"}": "tokens[0].nmae: is not a " +
			"setting of a token (did you mean name?)",
		"http: {tokens: [" + strings.Join(many[:500], ",") +
			"], tokens_file: " + write(t, "tokens: ["+strings.Join(many[500:], ",")+"]") +
			"}": "http.tokens: and http.tokens_file have 1001 items together",
	} {
		_, err := loaded(t, content)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrRefused) {
			t.Errorf("%.200s: got %v\nwant %s", content, err, want)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret shows in %v", err)
		}
	}
	if _, err := loaded(t, "http: {tokens: ["+strings.Join(many[:1000], ",")+"]}"); err != nil {
		t.Errorf("1000 tokens: %v", err)
	}
	if _, err := loaded(t, "http: {tokens: []}\ntopics:\n"); err != nil {
		t.Errorf("no tokens: %v", err)
	}
	_, err := loaded(t, "http: {listen: ':80', tokens: []}")
	mustHave(t, err, `http.listen: ":80" lets other machines in without a token`)
}

func TestMistakesInALongListAreToldInBrief(t *testing.T) {
	t.Parallel()
	_, err := loaded(t, "topics: ["+strings.Repeat("{pattern: 5},", 900)+"]")
	mustHave(t, err, "topics[19].pattern: ", "topics: has 880 further mistakes, from ")
	if n := strings.Count(err.Error(), "\n"); n != maxItemProblems {
		t.Errorf("%d lines", n+1)
	}
}

func TestTopicsAreReadWhole(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + strings.Repeat("A", 32)
	content := "topics:\n" +
		"  - {pattern: orders.dead}\n" +
		"  - {pattern: hooks, deliver: webhook, serial: true, webhook: {url: 'https://a.example/in?x=1', secrets: [" +
		secret + "], timeout: 3s, concurrency: 2, batch: 5}}\n" +
		"  - {pattern: 'orders.>', retry: '0,2m', ttl: 24h, core: drop, rate: 50, catch_up_rate: 12.5, dead: " +
		"orders.dead, expired: ops.late, partitions: 8, deliver: mq}\n" +
		"  - pattern: '*.late'\n" +
		"retry: exp(1s,1h,10)\n" +
		"dead: {keep: 24h}\n"
	s, err := loaded(t, content)
	if err != nil {
		t.Fatal(err)
	}
	plain := Topic{Core: "hold"}
	first, last := plain, plain
	first.Pattern, last.Pattern = "orders.dead", "*.late"
	want := []Topic{first, {Pattern: "hooks", Core: "hold", Deliver: "webhook", Serial: true,
		Webhook: Webhook{"https://a.example/in?x=1", []Secret{Secret(secret)}, 3 * time.Second, 2, 5, nil}}, {
		Pattern: "orders.>", Retry: "0,2m", TTL: 24 * time.Hour, Core: "drop", Rate: 50, CatchUpRate: 12.5,
		Dead: "orders.dead", Expired: "ops.late",
		Partitions: 8, Deliver: "mq",
	}, last}
	if !reflect.DeepEqual(s.Topics, want) || s.Retry != "exp(1s,1h,10)" || s.Dead.Keep != 24*time.Hour {
		t.Errorf("got %+v\nwant %+v", s.Topics, want)
	}
}

func TestTopicsThatCannotBeMeantAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	topic := func(fields string) string { return "topics: [{pattern: a.b}, {pattern: c, " + fields + "}]" }
	secret := "whsec_" + strings.Repeat("A", 32)
	hook := "deliver: webhook, webhook: {url: 'http://a', secrets: [" + secret + "]"
	for content, want := range map[string]string{
		"topics: x": "topics: is not a list (limit: a list of up to " +
			"1000 sections), from ",
		"topics: [x]": "topics[0]: is not a topic, which is a " +
			"section, from ",
		"topics: [{}]":            "topics[0].pattern: is not set",
		"topics: [{pattern: ''}]": `topics[0].pattern: "" is empty`,
		"topics: [{pattern: 5}]":  `topics[0].pattern: "5" is not text to YAML`,
		"topics: [{pattern: [a]}]": `topics[0].pattern: "[...]" is a list, ` +
			`not one value`,
		"topics: [{pattern: 'a..b'}]":   `topics[0].pattern: "a..b" has an empty token`,
		"topics: [{pattern: '>.a'}]":    `has ">" before its end`,
		"topics: [{pattern: 'a b'}]":    "contains a blank or a control character",
		"topics: [{pattern: '$JS.>'}]":  `starts with "$", which belongs to the server`,
		"topics: [{pattern: _INBOX.x}]": `starts with "_INBOX", where replies go`,
		"topics: [{pattern: 'tarry.>'}]": `topics[0].pattern: "tarry.>" lies under ` +
			`"tarry.", which tarry reads itself`,
		"topics: [{pattern: 'delayed.a'}]":            `lies under "delayed.", which tarry reads itself`,
		"nats: {prefix: in}\ntopics: [{pattern: in}]": `topics[0].pattern: "in" lies under "in."`,
		"topics: [{pattern: 'a.*'}, {pattern: b}, {pattern: a.b}]": `topics[2].pattern: "a.b" never applies: ` +
			`topics[0] has "a.*", which matches all of it first`,
		"topics: [{pattern: '>'}, {pattern: 'a.>'}]": "topics[1].pattern: ",
		"topics: [{pattern: a}, {pattern: a}]":       "topics[1].pattern: ",
		topic("rates: 5"): "topics[1].rates: is not a setting of a topic " +
			"(did you mean rate?), from ",
		topic("'a.b': 5"): "topics[1].a.b: is not a setting of a topic",
		topic("rate: 0"): `topics[1].rate: "0" is below 0.001 (limit: ` +
			`0.001 to 1000000)`,
		topic("rate: -5"):         `topics[1].rate: "-5" is below`,
		topic("rate: 1000001"):    `topics[1].rate: "1000001" is above 1000000`,
		topic("rate: .nan"):       `topics[1].rate: "NaN" is not a number`,
		topic("rate: .inf"):       "is above",
		topic("rate: fast"):       `topics[1].rate: "fast" is not a number`,
		topic("rate: true"):       `topics[1].rate: "true" is of another kind`,
		topic("catch_up_rate: 0"): "topics[1].catch_up_rate: ",
		topic("ttl: 0"):           `topics[1].ttl: "0" has no unit`,
		topic("ttl: 90000h"):      "is above 87672h",
		topic("core: keep"): `topics[1].core: "keep" is not one of the ` +
			`choices (limit: hold or drop)`,
		topic("serial: true"):                                          `topics[1].serial: "true" requires `,
		topic("webhook: {batch: 5}"):                                   "topics[1].webhook: requires deliver: webhook",
		topic("deliver: webhook"):                                      "topics[1].webhook.url: is not set, and deliver: ",
		topic("deliver: webhook, webhook: {url: 'http://a'}"):          "topics[1].webhook.secrets: is not set",
		topic(hook + "}, rate: 5"):                                     `topics[1].rate: "5" requires deliver: mq`,
		topic(hook + "}, lease: 5s"):                                   `topics[1].lease: "5s" cannot be combined with`,
		topic(hook + ", tries: 5}"):                                    "topics[1].webhook.tries: is not a setting of",
		topic(hook + ", concurrency: 257}"):                            "is above 256",
		topic("webhook: {url: 'ftp://a'}"):                             "begins with neither http:// nor https://",
		topic("webhook: {url: 'http://me:too@a'}"):                     "holds a user, password or token",
		topic("webhook: 5"):                                            "topics[1].webhook: is not a setting of",
		topic("webhook: {secrets: [sesame]}"):                          "does not begin with whsec_ (limit: ",
		topic("webhook: {secrets: [whsec_AAAA]}"):                      "has 3 bytes (limit: ",
		topic("webhook: {secrets: [whsec_AAAA, sesame]}"):              "has item number 1, which has 3 bytes",
		topic("webhook: {secrets: [" + secret + ", " + secret + "]}"):  "has number 2 twice",
		topic("webhook: {secrets: ['whsec_!" + secret + "', sesame]}"): "which is not base64 after whsec_",
		topic("deliver: pull, rate: 5"):                                `topics[1].rate: "5" requires deliver: mq`,
		topic("lease: 99ms"):                                           "topics[1].lease: ",
		topic(
			"deliver: push"): `topics[1].deliver: "push" is not one of the choices`,
		topic("retry: soon"): `topics[1].retry: "soon" has a `,
		topic(
			"retry: '@hunter2'"): `topics[1].retry: "***@hunter2" is no list of delays`,
		topic("partitions: 0"): `topics[1].partitions: "0" is below 1 ` +
			`(limit: 1 to 1024)`,
		topic("partitions: 1025"):                  "is above 1024",
		topic("dead: 'a.*'"):                       `topics[1].dead: "a.*" contains a wildcard`,
		topic("expired: 'a.>'"):                    `topics[1].expired: "a.>" contains a wildcard`,
		topic("dead: delayed.x"):                   `topics[1].dead: "delayed.x" lies under "delayed."`,
		topic("dead: tarry.x"):                     `topics[1].dead: "tarry.x" lies under "tarry."`,
		topic("dead: $JS.x"):                       `starts with "$", which belongs to the server`,
		topic("dead: c"):                           `topics[1].dead: "c" leads back to this topic`,
		"topics: [{pattern: '>', dead: ops.dead}]": `topics[0].dead: "ops.dead" leads back`,
		topic("expired: c"):                        `topics[1].expired: "c" leads back`,
		"topics: [{pattern: 'a.>', dead: a.dead}]": `topics[0].dead: "a.dead" leads back`,
		"topics: [{pattern: a, dead: b}, {pattern: b, expired: c}, {pattern: c, " +
			"dead: a}]": `topics[2].dead: "a" leads back`,
		"topics: [" + strings.Repeat("{pattern: a},", 1001) + "]": "topics: has 1001 items",
		"retry: soon":     `retry: "soon" has a `,
		"dead: {keep: 5}": `dead.keep: "5" has no unit`,
		"dead: {kep: 5h}": "dead.kep: is not a setting of tarry (did you mean dead.keep?)",
	} {
		_, err := loaded(t, content)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrRefused) {
			t.Errorf("%.200s: got %v\nwant %s", content, err, want)
		} else if strings.Contains(err.Error(), "whsec_A") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("shows a secret: %v", err)
		}
	}
	if _, err := loaded(
		t, "topics: [{pattern: ops.dead}, {pattern: '>', dead: ops.dead, expired: ops.dead}]"); err != nil {
		t.Errorf("a topic of its own for the copies: %v", err)
	}
}

// What a message may be due on is what a setting may name.
func TestSubjectsAgreeWithTheDoors(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "a.b", ".", "a.", ".a", "a..b", "a b", "a\x00", "a\u00a0b", "é", "\xff", "\ufffd",
		"$x", "x$", "_INBOX", "_INBOXES", "*", ">", "a*", "a.>",
		"tarry.x", strings.Repeat("a", 255), strings.Repeat("a", 256), "a,b", "a@b"} {
		if got, want := subject().check(s) == "", wire.CheckSubject(s) == nil; got != want {
			t.Errorf("%q: taken %v, as a topic %v", s, got, want)
		}
		if literal := !strings.ContainsAny(s, "*>"); literal && pattern().check(s) != subject().check(s) {
			t.Errorf("%q: as a pattern %q", s, pattern().check(s))
		}
	}
}

func TestNewTokensAreUnlikeAndFitTheSetting(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		token, err := NewToken()
		if err != nil || seen[token] || !strings.HasPrefix(token, "tarry_") || len(token) != len("tarry_")+43 {
			t.Fatalf("got %q, %v", token, err)
		}
		seen[token] = true
		if _, err := LoadServe(flagsOf(t, serve, "--http.token="+token), nil); err != nil {
			t.Error(err)
		}
		if _, err := tokenHash().read(HashToken(token)); err != nil {
			t.Error(err)
		}
	}
	// FIPS 180-2
	if got := HashToken("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s", got)
	}
}

func TestReloadTakesOverListsAndTellsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	for _, c := range []command{serve, dev} {
		t.Run(fmt.Sprint(c), func(t *testing.T) { reloads(t, c) })
	}
}

func reloads(t *testing.T, c command) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tarry.yaml")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("http: {token: hunter2hunter2hunter2}\ntopics: [{pattern: a}]\nretry: 1s\nlog: {level: info}\n")
	flags := flagsOf(t, c, "--config", path, "--log.format=json")
	running, err := load(c, flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	reload := func() (Serve, []string, error) {
		next, err := load(c, flags, nil)
		restart := running.(*Serve).NeedRestart(*next.(*Serve))
		return *next.(*Serve), restart, err
	}
	next, restart, err := reload()
	if err != nil || len(next.Topics) != 1 || next.Retry != "1s" || restart != nil {
		t.Errorf("unchanged: got %+v, %v, %v", next, restart, err)
	}
	save("http: {token: hunter3hunter3hunter3, tokens: [" + oneToken +
		"]}\ntopics: [{pattern: b, rate: 5}, {pattern: c}]\nretry: 2s\nlog: {level: debug}\n")
	next, restart, err = reload()
	if err != nil || len(next.Topics) != 2 || next.Topics[0].Rate != 5 || len(next.HTTP.Tokens) != 1 ||
		next.Retry != "2s" || !reflect.DeepEqual(restart, []string{"http.token", "log.level"}) {
		t.Errorf("got %+v, %v, %v", next, restart, err)
	}
	for _, bad := range []string{"topics: [{pattern: b, rate: 0}]",
		"http: {tokens: [{name: a}]}\ntopics: [{pattern: a}]", "topics: [", "buckts: 4\ntopics: [{pattern: a}]",
		"log: {level: loud}\ntopics: [{pattern: a}]", "http: {listen: ':80'}"} {
		save(bad)
		if next, _, err = reload(); !errors.Is(err, ErrRefused) || !reflect.DeepEqual(next, Serve{}) {
			t.Errorf("%s: got %+v, %v", bad, next, err)
		}
	}
}
