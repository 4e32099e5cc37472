package main

import (
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// wholeList is the page size that --all requests without --limit.
const wholeList = "1000"

// page is the displayed part of one page of a list.
type page struct {
	text   string
	cursor string // of the next page; empty after the last
	empty  bool   // a page of rejects may be, and have a next one: what it looks at is bounded
	// below and remark come with the last page that is shown.
	below, remark string
}

// addPages adds the flags of a list of the things that what names.
func addPages(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.String("limit", "", what+" per page, 1 to 1000 (default 100, with --all 1000)")
	flags.String("cursor", "", "continue after the page with this cursor")
	flags.Bool("all", false, "show every page")
}

// pages shows one page, or with --all every page, of what the flags with these names leave.
func pages[A any](c caller, cmd *cobra.Command, names []string,
	path string, see func(t clock, answer *A, first bool) page) error {
	q, all := parameters(cmd, append([]string{"limit", "cursor"}, names...)...), isSet(cmd, "all")
	if all && !q.Has("limit") {
		q.Set("limit", wholeList)
	}
	for first := true; ; first = false {
		answer, raw, err := get[A](c, cmd, client.WithQuery(path, q))
		if err != nil {
			return answered(err, c.json)
		}
		p := see(c.clock, &answer, first)
		last := p.cursor == "" || !all && !p.empty
		if last {
			p.text += p.below
		}
		if !p.empty || c.json || first {
			if err := c.show(raw, p.text); err != nil {
				return err
			}
		}
		if last {
			if p.cursor != "" {
				p.remark = strings.TrimSuffix("there are more: --all shows them; "+p.remark, "; ")
			}
			c.remark(p.remark)
			return nil
		}
		q.Set("cursor", p.cursor)
	}
}

// parameters returns the flags that were set, under their names in the query.
func parameters(cmd *cobra.Command, names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			q.Set(strings.ReplaceAll(name, "-", "_"), flag.Value.String())
		}
	}
	return q
}

// columns are column widths, negative for left-aligned columns: the pages of a long list are printed one by one and
// must line up. The last column needs none.
type columns []int

// lines lays out rows. The first row is the head, which only the first page shows.
func (w columns) lines(rows [][]string, first bool) string {
	if !first {
		rows = rows[1:]
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i == len(w) {
				line.WriteString(cell)
				break
			}
			fmt.Fprintf(&line, "%*s  ", w[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// table lays out rows in columns of the necessary width; an empty cell is shown as a dash.
func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = printable(cell, ""); cell == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
	return b.String()
}
