package measure

import "github.com/tarry-mq/tarry/deploy/bench/internal/report"

// noBefore is why the plain path is not compared.
const noBefore = "no -before given"

// plainTests do the same work with the program before and with this one. Each has two systems, so that they take turns.
func (b bench) plainTests(before string) []Test {
	old := b
	old.program = before
	tests := []Test{
		{Name: report.PlainPush, Systems: []System{{report.Tarry, b.tarryBatches}, {report.Before, old.tarryBatches}}},
		{Name: report.PlainTag, Systems: []System{{report.Tarry, b.tarryAsync}, {report.Before, old.tarryAsync}}},
		{Name: report.PlainDrain, Systems: []System{{report.Tarry, b.tarryDrain}, {report.Before, old.tarryDrain}}},
	}
	for i := range tests {
		if before == "" {
			tests[i].Skip = noBefore
		}
	}
	return tests
}
