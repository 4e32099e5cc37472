package tarry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// doorCall is one attempt of one push through the door.
type doorCall = call[*nats.Msg, Stored]

// doorResult is what an instance reserves for a result in its answer.
const doorResult = 1024

// doorFits returns how many pushes one request holds.
func (c *Client) doorFits(all []*doorCall) int {
	limit := int(c.nc.MaxPayload())
	most := min(len(all), wire.MaxBatchDoor, max(limit/doorResult, 1))
	for n, size := 0, 0; n < most; n++ {
		if size += partSize(all[n].ask); n > 0 && size > limit/2 {
			return n
		}
	}
	return most
}

// throughDoor sends pushes on a subject with one request.
func (c *Client) throughDoor(subject string, all []*doorCall) {
	if len(all) == 1 {
		all[0].tell(c.attemptAtDoor(all[0].ctx, all[0].ask))
		return
	}
	many := nats.NewMsg(subject)
	many.Header.Set(wire.HeaderBatch, strconv.Itoa(len(all)))
	for _, one := range all {
		many.Data = appendPart(many.Data, one.ask)
	}
	answer, err := c.askDoor(context.WithoutCancel(all[0].ctx), many)
	outcomes := make([]Outcome, len(all))
	if err == nil {
		err = readResults(answer, outcomes)
	}
	// An instance of before knows no batch, and the server of another may take only smaller ones: nothing was stored, and
	// each goes by itself.
	var refused *Error
	alone := errors.As(err, &refused) && (refused.Word == wire.WordUnknown || refused.Word == wire.WordTooLarge)
	if alone || errors.Is(err, nats.ErrMaxPayload) {
		if alone && refused.Word == wire.WordUnknown {
			c.door.onlySingle(c.nc)
		}
		var each sync.WaitGroup
		for _, one := range all {
			each.Go(func() { one.tell(c.attemptAtDoor(one.ctx, one.ask)) })
		}
		each.Wait()
		return
	}
	for i, one := range all {
		one.tell(outcomes[i].Stored, cmp.Or(err, outcomes[i].Err))
	}
}

// readResults reads the answer to many pushes. Those that are refused, which are few, it reads once more.
func readResults(data []byte, outcomes []Outcome) error {
	var answer struct {
		Word    string `json:"error"`
		Results []struct {
			pushAnswer
			Word string `json:"error"`
		}
	}
	var texts struct{ Results []json.RawMessage }
	if err := json.Unmarshal(data, &answer); err != nil || answer.Word != "" {
		return readAnswer(data, &texts)
	}
	if n := len(answer.Results); n != len(outcomes) {
		return fmt.Errorf("%w: the answer has %d results for %d pushes", ErrOutcomeUnknown, n, len(outcomes))
	}
	for i := range answer.Results {
		var err error
		if answer.Results[i].Word != "" {
			if err = json.Unmarshal(data, &texts); err == nil {
				err = readAnswer(texts.Results[i], &pushAnswer{})
			}
		}
		outcomes[i] = answer.Results[i].outcome(err)
	}
	return nil
}

// partSize returns what a message takes of a request at the most.
func partSize(m *nats.Msg) int {
	size := len(m.Data) + len("NATS/1.0\r\n\r\n") + 8
	for name, values := range m.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return size
}

// appendPart appends a message with its header as nats.go writes it: what goes with others arrives as it does alone.
func appendPart(b []byte, m *nats.Msg) []byte {
	block := []byte("NATS/1.0\r\n")
	for name, values := range m.Header {
		for _, v := range values { // neither holds a control character
			block = append(append(append(append(block, name...), ": "...), v...), "\r\n"...)
		}
	}
	return wire.AppendBatchPart(b, wire.BatchPart{Header: append(block, "\r\n"...), Body: m.Data})
}
