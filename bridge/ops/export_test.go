package ops

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// Asked returns the selection in the scheduler's form.
func (s *Selection) Asked(now time.Time) (scheduler.Selection, error) { return s.selection(now) }

// Asked returns the selection in the scheduler's form.
func (d *DeadOrder) Asked(now time.Time) (scheduler.Selection, error) { return d.selection(now) }
