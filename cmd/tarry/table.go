package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table lays out rows in columns; an empty cell is shown as a dash.
func table(rows [][]string) (string, error) {
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
	if err := w.Flush(); err != nil {
		return "", fmt.Errorf("lay out the table: %w", err)
	}
	return b.String(), nil
}
