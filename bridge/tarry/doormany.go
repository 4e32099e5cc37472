package tarry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// doorCall is one attempt of one push through the door.
type doorCall = call[*nats.Msg, Stored]

// doorResult is what an instance reserves for a result in its answer.
const doorResult = 1024

// throughDoor sends as many pushes on a subject as one request holds, and returns how many that is.
func (c *Client) throughDoor(subject string, all []*doorCall) int {
	if len(all) == 1 {
		all[0].tell(c.attemptAtDoor(all[0].ctx, all[0].ask))
		return 1
	}
	limit := int(c.nc.MaxPayload())
	most := min(len(all), wire.MaxBatchDoor, max(limit/doorResult, 1))
	body, n := appendPart(nil, all[0].ask), 1
	for ; n < most; n++ {
		longer := appendPart(body, all[n].ask)
		if len(longer) > limit/2 {
			break
		}
		body = longer
	}
	many := nats.NewMsg(subject)
	many.Header.Set(wire.HeaderBatch, strconv.Itoa(n))
	many.Data = body
	answer, err := c.askDoor(context.WithoutCancel(all[0].ctx), many)
	outcomes := make([]Outcome, n)
	if err == nil {
		err = readResults(answer, outcomes)
	}
	var refused *Error
	if errors.As(err, &refused) && refused.Word == wire.WordUnknown { // an instance of before
		c.door.onlySingle(c.nc)
		var each sync.WaitGroup
		for _, one := range all {
			each.Go(func() { one.tell(c.attemptAtDoor(one.ctx, one.ask)) })
		}
		each.Wait()
		return len(all)
	}
	for i, one := range all[:n] {
		one.tell(outcomes[i].Stored, cmp.Or(err, outcomes[i].Err))
	}
	return n
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

// appendPart appends a message with its header as NATS writes it.
func appendPart(b []byte, m *nats.Msg) []byte {
	var block bytes.Buffer
	block.WriteString("NATS/1.0\r\n")
	_ = http.Header(m.Header).Write(&block) // a buffer takes all
	block.WriteString("\r\n")
	return wire.AppendBatchPart(b, wire.BatchPart{Header: block.Bytes(), Body: m.Data})
}
