package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const marker = "hunter2hunter2hunter2"

// secretOf is a good value for a secret setting, with the marker in it.
func secretOf(s setting) string {
	if s.name == "journal.dsn" {
		return "me:" + marker + "@tcp(a:3306)/b"
	}
	return marker
}

func TestSecretsAreInNoOutput(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		if !s.secret {
			continue
		}
		var beside []string
		e := examplesOf(t)[s.name]
		for i := 0; i < len(e.beside); i += 2 {
			beside = append(beside, "--"+e.beside[i]+"="+e.beside[i+1])
		}
		for _, of := range s.commands() {
			flags := flagsOf(t, of, append(beside, s.flag()+"="+secretOf(s))...)
			got, err := load(of, flags, needs(of, s.name))
			if err != nil {
				t.Fatal(err)
			}
			if field := fields(got)[s.name]; field.String() != secretOf(s) {
				t.Errorf("%s: got %q", s.name, field.String())
			}
			var out strings.Builder
			for _, v := range values(got) {
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%T", "%t"} {
					fmt.Fprintf(&out, verb+"\n", v)
				}
				j, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				y, err := yaml.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "%s\n%s\n", j, y)
			}
			fmt.Fprintln(&out, flags.FlagUsages(), flags.Lookup(s.name).Value)
			hide(t, s.name, out.String())
			if !strings.Contains(out.String(), mask) {
				t.Errorf("%s: a secret that is set shows no %s", s.name, mask)
			}
		}
	}
}

// values are the settings as pointer and value, and their parts alone.
func values(target any) []any {
	switch v := target.(type) {
	case *Serve:
		return []any{v, *v, v.HTTP, v.NATS, v.Redis, v.ZooKeeper, v.Journal, v.Journal.DSN}
	case *Client:
		return []any{v, *v, v.Token}
	}
	return nil
}

func hide(t *testing.T, where, text string) {
	t.Helper()
	for _, part := range []string{marker, marker[:7], fmt.Sprintf("%x", marker), fmt.Sprintf("%X", marker)} {
		if strings.Contains(text, part) {
			t.Errorf("%s: the secret shows in\n%s", where, text)
			return
		}
	}
}

func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		if !s.secret {
			continue
		}
		for _, bad := range []string{marker + "\n", strings.Repeat(marker, 100), marker + "\xff"} {
			for _, of := range s.commands() {
				_, err := load(of, flagsOf(t, of, s.flag()+"="+bad), needs(of, s.name))
				mustHave(t, err, s.name+`: "***" `)
				hide(t, s.name, err.Error())
				_, err = load(of, nil, append(needs(of, s.name), s.env()+"="+bad))
				mustHave(t, err, s.name+`: "***" `)
				hide(t, s.name, err.Error())
			}
		}
	}
	for _, file := range []string{
		marker, "[" + marker + "]", "http: " + marker, "http: {token: *" + marker + "}",
		"http: {token: &" + marker + " }",
		"http: {token: {" + marker + ": 1}}", "http: {token: {" + marker + "}}", "http: {token: [" + marker + "]}",
		"http:\n  token: " + marker + ": x",
		"http: {token: !!int " + marker + "}", "http: {token: !!binary " + marker + "!}",
		"http: {token: !" + marker + " }", "http: {token: '" + marker + "",
		"http: {token: \"" + marker + "\\z\"}", "http: {tokn: " + marker + "}",
		"nats: {url: 'nats://me:" + marker + "@a:1'}",
		"nats: {url: 'nats://me:a," + marker + "@a:1,nats://b:2'}",
		"nats: {url: ['nats://" + marker + "@a:1', 'nats://b:2']}",
		"redis: {addrs: ['redis://:" + marker + "@a:1']}", "redis: {addrs: ['" + marker + "@a:1', 'b']}",
		"zookeeper: {servers: 'me:" + marker + "@a:1'}",
		"http: {listen: 'me:" + marker + "@:1'}", "peer: {advertise: '" + marker + "@:1'}",
		"http: {insecure: 'x://" + marker + "@a'}", "buckets: '" + marker + "@'",
		"http: {token: |" + marker + "\n x}", "http: {token: %" + marker + "}", "http: {token: @" + marker + "}",
		"http: {token: `" + marker + "}",
		"http:\n  token:\n   " + marker + "\n  " + marker, "%" + marker, "!" + marker,
		"journal: {dsn: 'me:" + marker + "@tcp(a:1)'}", "journal: {dsn: 'me:" + marker + "@tcp(a:1)/'}",
		"journal: {dsn: {me: '" + marker + "'}}",
		"journal: {dsn: [" + marker + "]}", "journal: {dns: 'me:" + marker + "@tcp(a:1)/b'}",
		"journal: 'me:" + marker + "@tcp(a:1)/b'",
		"journal: {mode: 'me:" + marker + "@tcp(a:1)/b'}",
		"journal: {mode: never, dsn: 'me:" + marker + "@tcp(a:1)/b'}",
		"journal: {mode: sync, dsn: 'me:" + marker + "@tcp(a:1)'}", "journal: {keep: 'me:" + marker + "@tcp(a:1)/b'}",
	} {
		_, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, file)})
		if err == nil {
			t.Errorf("%q is accepted", file)
			continue
		}
		hide(t, file, err.Error())
	}
	for _, environ := range []string{"TARRY_HTTP_TOKN=" + marker, "TARRY_REDIS_URL=redis://:" + marker + "@a",
		"TARRY_JOURNAL_DNS=me:" + marker + "@tcp(a)/b",
		"TARRY_JOURNAL_DSN=me:" + marker + "@tcp(a)", "TARRY_PEER_LISTEN=me:" + marker + "@a:1"} {
		_, err := LoadServe(nil, []string{environ})
		mustHave(t, err, "TARRY_")
		hide(t, environ, err.Error())
	}
	_, err := LoadClient(flagsOf(t, client, "--server=http://me:"+marker+"@a:1"), nil)
	mustHave(t, err, `server: "http://***@a:1" holds a user, password or token`)
	hide(t, "server", err.Error())
}

// Whoever copies a page's example is told that everybody knows its secrets.
func TestSecret_KnowsThoseOfThePages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		secrets := regexp.MustCompile(`(?:http: {[^}]*token: |tarry:)([a-z-]+)(?:}|@tcp)`)
		for _, m := range secrets.FindAllStringSubmatch(string(text), -1) {
			if found++; !Secret(m[1]).Printed() {
				t.Errorf("%s prints the secret %q, which doctor does not know", page, m[1])
			}
		}
	}
	if found < 4 {
		t.Errorf("the pages print %d secrets", found)
	}
}
