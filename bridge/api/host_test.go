package api_test

import (
	"net/http"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
)

func TestHost_OfAnotherIsRefusedWhereNobodyIsAskedForAToken(t *testing.T) {
	t.Parallel()
	hosts := func(c *api.Config) { c.Hosts = []string{"tarry.example.com", "tarry-a"} }
	ask := func(h http.Handler, host, method, target, body string) reply {
		r := asked(t, method, target, body)
		r.Host = host
		return read(t, serve(h, r).Result())
	}
	d := open(t, hosts)
	for host, own := range map[string]bool{
		"127.0.0.1":                  true,
		"127.0.0.1:7070":             true,
		"10.1.2.3:7070":              true,
		"[::1]:7070":                 true,
		"[::1]":                      true,
		"::1":                        true,
		"localhost":                  true,
		"LocalHost:7070":             true,
		"localhost.:7070":            true,
		"tarry-a:7070":               true,
		"Tarry.example.com":          true,
		"attacker.example":           false,
		"attacker.example:7070":      false,
		"localhost.attacker.example": false,
		"tarry-a.attacker.example":   false,
		"127.0.0.1.attacker.example": false,
		"":                           false,
		"tarry-b":                    false,
		"[::1":                       true,
		"127.1":                      false,
		"2130706433":                 false,
	} {
		want, word := 201, ""
		if !own {
			want, word = 403, "foreign_host"
		}
		ask(d, host, "POST", "/v1/messages", hourly("")).want(t, want, word)
		if a := ask(d, host, "GET", "/livez", ""); (a.status == 200) != own {
			t.Errorf("%q: /livez answers %d", host, a.status)
		}
	}
	if n := d.stored(t); n != 12 {
		t.Errorf("%d messages wait", n)
	}
	for _, target := range []string{"/v1/cluster", "/metrics", "/docs", "/openapi.json", "/nowhere", "//"} {
		ask(d, "attacker.example", "GET", target, "").want(t, 403, "foreign_host")
	}
	guarded := open(t, hosts, letting(token("all", []string{">"}, true, true)))
	ask(guarded, "attacker.example", "GET", "/v1/cluster", "").want(t, 401, "unauthorized")
	ask(guarded, "proxy.example", "GET", "/livez", "").want(t, 200, "")
}
