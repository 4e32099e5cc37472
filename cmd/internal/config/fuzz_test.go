package config

import (
	"errors"
	"reflect"
	"testing"
)

// loadYAML loads one file and nothing else.
func loadYAML(t *testing.T, of command, content []byte) (any, error) {
	return load(of, nil, []string{"TARRY_CONFIG=" + write(t, string(content))})
}

// FuzzLoadServe feeds any bytes as the file of settings. Nothing panics; what is refused is refused as ErrRefused; what
// is accepted loads to the same settings again after it was written out. The other commands get the same bytes.
func FuzzLoadServe(f *testing.F) {
	for _, seed := range []string{
		Sample(),
		"",
		"namespace: orders\ninstance: one\nbuckets: 16\n",
		"http: {listen: '127.0.0.1:0', token: 0123456789abcdef, insecure: true, body_limit: 1MiB}",
		"nats:\n  url: [nats://a:1, tls://b:2]\n  prefix: a.b\n  user: ann\n  password: 'it''s'\n  intake: " +
			"{replicas: 3, max_bytes: 1073741825}\n",
		"redis: {addrs: 'a:1,b:2', master: m, username: u, password: \"\\u2028 #\", db: 3, tls: true}",
		"zookeeper: {servers: [a:1], session: 40s, username: '<<', password: '~'}",
		"claim: {batch: 1, bytes: 1048577}\npublish: {timeout: 1.5s, pending: 1}\nattempts: {limit: 1}\nended: " +
			"{keep: 90s}\nstop: {timeout: 2s}",
		"a: &a {b: c}\nhttp:\n  <<: *a\n",
		"namespace: orders\njournal: {mode: sync, dsn: 'me:it''s@tcp(a:1)/b?tls=true', migrate: false, outbox: 1MiB, " +
			"keep: 1h, window: 1m, audit: 720h}",
		"journal: {mode: off, dsn: 'sqlite: x'}\nlog: {level: debug, format: json}", "journal: {dsn: /}",
		"http: {tokens: [{name: shop, sha256: " + HashToken("x") +
			", push: ['orders.>', 'mail.*', 'a,b'], pull: [], read: true}, {name: ops, sha256: '" + HashToken("y") +
			"', operate: true}]}",
		"topics: [{pattern: 'mail.>', rate: 50, catch_up_rate: 1e3, retry: '10s,1m', ttl: 1h, dead: ops.dead, " +
			"expired: ops.expired, core: drop, deliver: mq}, {pattern: a, partitions: 1024}]\nretry: " +
			"exp(1s,1h,10)\ndead: {keep: 0}",
		"topics: [{pattern: '>', dead: a}, 1, {patern: x}, {pattern: 'a.*', rate: .inf}, {pattern: 5}]",
		"topics: {a: b}", "http: {tokens: 5, tls: {cert: /}}",
		"? {a: b}\n: c\n", "[", "{", "- - - a", "a: !!binary aGk=", "a: *a", "log: {level: off, format: no}",
		"\xff\xfe", "a: 1\n---\na: 2\n",
		"server: http://[::1]:1/x\ntoken: '='\njson: true\ntimeout: 1h\n",
		"data: .\nnats: {listen: ':0'}\nhttp: {insecure: true}\n",
		"http: {token: '0123456789abcdef with blanks'}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, of := range everyCommand() {
			got, err := loadYAML(t, of, content)
			if err != nil {
				if !errors.Is(err, ErrRefused) {
					t.Fatalf("%s: %v is no ErrRefused", of, err)
				}
				continue
			}
			text, err := encode(got, of)
			if err != nil {
				t.Fatalf("%s: %v", of, err)
			}
			again, err := loadYAML(t, of, text)
			if err != nil {
				t.Fatalf("%s: accepted settings are refused after encoding: %v\n%s", of, err, text)
			}
			if !reflect.DeepEqual(got, again) {
				t.Fatalf("%s: got\n%v\nafter encoding\n%v", of, got, again)
			}
		}
	})
}
