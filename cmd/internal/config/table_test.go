package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file, and the tables in docs/settings.md")

func TestTheThreeSpellingsOfEverySettingAreFixed(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, s := range append([]setting{configFile()}, settings()...) {
		secret := ""
		if s.secret {
			secret = " secret"
		}
		path := s.name
		if s.name == configName {
			path = "-"
		}
		fmt.Fprintf(&b, "%s | %s | %s | %s%s | default %q | %s | %s\n",
			path, s.env(), s.flag(), s.limit.noun(), secret, s.fallback, s.limit.words(), s.of)
	}
	for _, q := range sequences() {
		fmt.Fprintf(&b, "%s | %s | %s\n", q.name, q.words(), q.of)
		for _, s := range q.rows {
			secret := ""
			if s.secret {
				secret = " secret"
			}
			fmt.Fprintf(&b, "%s[].%s | %s%s | default %q | %s\n", q.name, s.name, s.limit.noun(), secret, s.fallback,
				s.limit.words())
		}
	}
	golden := filepath.Join("testdata", "settings.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the settings differ from %s (rewrite it with -update if that is meant); got\n%s", golden, got)
	}
}

func TestTheTableIsSound(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)*$`)
	rows := settings()
	envs, sections, last := map[string]string{}, map[string]bool{}, ""
	for _, s := range rows {
		if !plain.MatchString(s.name) {
			t.Errorf("%s: not a plain name", s.name)
		}
		if other, taken := envs[s.env()]; taken {
			t.Errorf("%s and %s share %s", s.name, other, s.env())
		}
		envs[s.env()] = s.name
		if fromKubernetes(s.env(), "tcp://10.0.0.1:80") || fromKubernetes(s.env(), "10.0.0.1") ||
			fromKubernetes(s.env(), "80") {
			t.Errorf("%s could be taken for a variable of Kubernetes", s.env())
		}
		section, _, nested := strings.Cut(s.name, ".")
		if nested && section != last && sections[section] {
			t.Errorf("%s: the section %s is torn apart", s.name, section)
		}
		sections[section], last = true, section
		if s.of == 0 || s.help == "" || s.limit == nil || strings.HasSuffix(s.help, ".") {
			t.Errorf("%s: the row is incomplete, or its help ends in a full stop", s.name)
		}
		if s.fallback != "" {
			value, err := s.limit.read(s.fallback)
			if err != nil {
				t.Errorf("%s: the default %s", s.name, err)
			} else if got := show(s.limit, value); got != s.fallback {
				t.Errorf("%s: the default %q shows as %q", s.name, s.fallback, got)
			}
		}
		if s.secret && s.fallback != "" {
			t.Errorf("%s: a secret has a default", s.name)
		}
	}
	for _, s := range rows {
		if slices.ContainsFunc(rows, func(o setting) bool { return strings.HasPrefix(o.name, s.name+".") }) {
			t.Errorf("%s is a setting and a section", s.name)
		}
	}
}

func TestEverySettingHasItsFieldAndEveryFieldItsSetting(t *testing.T) {
	t.Parallel()
	for of, target := range map[command]any{serve | dev | migrate: &Serve{}, client: &Client{}} {
		found := fields(target)
		var want []string
		for _, s := range settings() {
			if s.of&of == 0 {
				continue
			}
			want = append(want, s.name)
			field, ok := found[s.name]
			if !ok {
				continue
			}
			if secret := strings.HasSuffix(field.Type().String(), ".Secret"); secret != s.secret {
				t.Errorf("%s of %s: secret in one of table and struct only", s.name, of)
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s: fields\n%v\nwant\n%v", of, got, want)
		}
	}
}

func TestEveryListHasItsSliceAndEveryFieldOfAnItemItsRow(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`^([a-z]+\.)?[a-z0-9]+(_[a-z]+)*$`)
	items := map[string]any{"http.tokens": &Token{}, "topics": &Topic{}}
	for of, target := range map[command]any{serve | dev | migrate: &Serve{}, client: &Client{}} {
		found := lists(target)
		for _, q := range sequences() {
			if _, ok := found[q.name]; ok != (q.of&of != 0) {
				t.Errorf("%s of %s: a slice %v", q.name, of, ok)
			}
			delete(found, q.name)
			if !slices.ContainsFunc(settings(),
				func(s setting) bool { return s.name == q.before && s.of&q.of == q.of }) {
				t.Errorf("%s stands before %q", q.name, q.before)
			}
		}
		if len(found) > 0 {
			t.Errorf("%s: slices without a list: %v", of, found)
		}
	}
	for _, q := range sequences() {
		at := fields(items[q.name])
		if len(at) != len(q.rows) {
			t.Errorf("%s: %d fields, %d rows", q.name, len(at), len(q.rows))
		}
		for _, s := range q.rows {
			field, ok := at[s.name]
			if !ok || !plain.MatchString(s.name) || s.help == "" || strings.HasSuffix(s.help, ".") {
				t.Errorf("%s[].%s: no field, no plain name or no help", q.name, s.name)
			} else if secret := strings.HasSuffix(field.Type().String(), ".Secret"); secret != s.secret {
				t.Errorf("%s[].%s: secret in one of row and struct only", q.name, s.name)
			}
			if s.fallback != "" {
				if value, err := s.limit.read(s.fallback); err != nil || show(s.limit, value) != s.fallback {
					t.Errorf("%s[].%s: the default %v, %v", q.name, s.name, value, err)
				}
			}
		}
	}
}

func TestDefaultsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, of := range everyCommand() {
		for _, environ := range [][]string{nil, {"PATH=/bin", "TARRY=1", "NATS_URL=x", "TARRY_HTTP_TOKEN="}} {
			if _, err := load(of, nil, append(needs(of, ""), environ...)); err != nil {
				t.Errorf("%s: %v", of, err)
			}
		}
	}
	s, err := LoadServe(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if s.Instance != host {
		t.Errorf("instance: got %q, want the host's name %q", s.Instance, host)
	}
}
