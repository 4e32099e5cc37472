package app

import (
	"errors"
	"fmt"
	"slices"
)

// closers end opened resources, the last first.
type closers struct {
	list []closer
}

type closer struct {
	name string
	end  func() error
}

// onStop registers end to be called on Close. name names the resource in errors.
func (c *closers) onStop(name string, end func() error) {
	c.list = append(c.list, closer{name, end})
}

// onClose is onStop for functions that cannot fail.
func (c *closers) onClose(name string, end func()) {
	c.onStop(name, func() error { end(); return nil })
}

// Close ends the opened resources. Only the first call has an effect.
func (c *closers) Close() error {
	var errs []error
	for _, one := range slices.Backward(c.list) {
		if err := one.end(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", one.name, err))
		}
	}
	c.list = nil
	return errors.Join(errs...)
}
