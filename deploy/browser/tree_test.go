package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// tree holds what a screen says to those who do not see it, by role, name and state, against testdata/name.txt, which
// -update writes anew. What differs from run to run stands there as its kind.
func (p *page) tree(t *testing.T, name string) {
	t.Helper()
	p.do(t, chromedp.EmulateViewport(1360, 900)) // a narrow page leaves columns out
	file := filepath.Join("testdata", name+".txt")
	if *update {
		last := ""
		lab.Eventually(t, patience, func() error { // what comes a moment later is a part of it
			now := p.speaks(t)
			if now == last {
				return os.WriteFile(file, []byte(now), 0o600)
			}
			last = now
			return fmt.Errorf("%s still changes", name)
		})
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, patience, func() error {
		if got := p.speaks(t); got != string(want) {
			return fmt.Errorf("%s says\n%swant\n%s", p.at(t), got, want)
		}
		return nil
	})
}

// changing are parts of texts that differ from run to run.
var changing = []struct {
	part *regexp.Regexp
	kind string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "<time>"},
	{regexp.MustCompile(`\bt-[0-9a-z]{16}\b`), "<uid>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{2,}`), "<address>"},
	{regexp.MustCompile(`\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b`), "<clock>"},
	{regexp.MustCompile(`[+−][\d.]+ms( ±[\d.]+)?`), "<ahead>"},
	{regexp.MustCompile(`\b(?:\d+d \d+h|\d+h \d\dm|\d+m \d\ds|[\d.]+ms|\d+s|\d+m)\b`), "<span>"},
	{regexp.MustCompile(`v?\d+\.\d+\.\d+-[^\s"]+|\bdevel\b`), "<version>"},
}

// speaks returns the tree below main.
func (p *page) speaks(t *testing.T) string {
	t.Helper()
	var result accessibility.GetFullAXTreeResult
	p.do(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) (err error) {
		result, err = chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return err
	}))
	nodes, top := map[accessibility.NodeID]*accessibility.Node{}, (*accessibility.Node)(nil)
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s)
		}
		return s
	}
	for _, n := range result.Nodes {
		if nodes[n.NodeID] = n; text(n.Role) == "main" {
			top = n
		}
	}
	var b strings.Builder
	var walk func(n *accessibility.Node, depth int, named bool)
	walk = func(n *accessibility.Node, depth int, named bool) {
		role, said := text(n.Role), strings.Join(strings.Fields(text(n.Name)), " ")
		switch {
		case role == "InlineTextBox" || n.Ignored && role == "StaticText":
		case role == "StaticText":
			if said != "" && !named { // else the name has it
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), said)
			}
		case role == "time" && !n.Ignored:
			b.WriteString(strings.Repeat("  ", depth) + role + "\n")
			return
		case role == "generic" || role == "none" || n.Ignored:
			depth--
		default:
			line := strings.Repeat("  ", depth) + role
			if said != "" {
				line, named = line+fmt.Sprintf(" %q", said), true
			}
			for _, s := range n.Properties {
				if s.Name == "expanded" || s.Name == "pressed" || s.Name == "disabled" {
					line += " " + string(s.Name) + "=" + strings.Trim(string(s.Value.Value), `"`)
				}
			}
			b.WriteString(line + "\n")
		}
		for _, id := range n.ChildIDs {
			if child := nodes[id]; child != nil {
				walk(child, depth+1, named)
			}
		}
	}
	if top != nil {
		walk(top, 0, false)
	}
	said := b.String()
	for _, list := range []string{"Lately", "What happened"} { // on a busy machine more happens
		said, _, _ = strings.Cut(said, fmt.Sprintf("  sectionheader\n    heading %q\n", list))
	}
	for _, c := range changing {
		said = c.part.ReplaceAllString(said, c.kind)
	}
	return said
}
