package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// closers end opened resources, the last first.
type closers struct {
	list []closer
}

type closer struct {
	name string
	end  func() error
}

// closeLimit bounds Close.
const closeLimit = 10 * time.Second

// onStop registers end to be called on Close. name names the resource in errors.
func (c *closers) onStop(name string, end func() error) {
	c.list = append(c.list, closer{name, end})
}

// onClose is onStop for functions that cannot fail.
func (c *closers) onClose(name string, end func()) {
	c.onStop(name, func() error { end(); return nil })
}

// Close ends the opened resources. Only the first call has an effect. If a resource does not end in time, Close names
// it, and those that are left open because of it: they end with the process.
func (c *closers) Close() error {
	list := c.list
	c.list = nil
	var errs []error
	late := time.NewTimer(closeLimit)
	defer late.Stop()
	for i, one := range slices.Backward(list) {
		ended := make(chan error, 1)
		go func() { ended <- one.end() }() // left behind only where it hangs
		select {
		case err := <-ended:
			if err != nil {
				errs = append(errs, fmt.Errorf("close %s: %w", one.name, err))
			}
		case <-late.C:
			err := fmt.Errorf("close %s: it has not ended within %s", one.name, closeLimit)
			if i > 0 {
				var open []string
				for _, other := range list[:i] {
					open = append(open, other.name)
				}
				err = fmt.Errorf("%w; not closed: %s", err, strings.Join(open, ", "))
			}
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}
