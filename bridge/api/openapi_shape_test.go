package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// The types that answers are made of have the fields of their schemas, and what is never left out is required.
func TestOpenAPI_SchemasHaveTheFieldsOfTheirTypes(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(describe(""), &doc); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"Problem":         ops.Problem{},
		"Canceled":        ops.Canceled{},
		"Message":         ops.Info{},
		"Rescheduled":     ops.Rescheduled{},
		"Report":          ops.Report{},
		"MessageList":     ops.MessageList{},
		"Lag":             record.Lag{},
		"Topics":          ops.Topics{},
		"TopicCounts":     ops.TopicCounts{},
		"TopicSettings":   ops.TopicSettings{},
		"Pause":           scheduler.Pause{},
		"Paused":          ops.Paused{},
		"History":         ops.History{},
		"Life":            ops.Life{},
		"RejectedPush":    scheduler.Rejected{},
		"Change":          record.Change{},
		"Forecast":        scheduler.Outlook{},
		"Held":            ops.HeldList{},
		"DeadGroups":      ops.DeadGroups{},
		"RestoreReport":   record.RestoreReport{},
		"VerifyReport":    record.VerifyReport{},
		"Difference":      record.Difference{},
		"RedeliverReport": record.RedeliverReport{},
		"Cluster":         ops.Cluster{},
		"Me":              ops.Me{},
		"Overview":        ops.Overview{},
		"Condition":       ops.Condition{},
		"Series":          ops.Series{},
		"Events":          ops.EventList{},
		"Event":           scheduler.Event{},
		"Actions":         ops.ActionList{},
		"Action":          record.Action{},
		"Instance":        ops.Instance{},
		"InstanceDetail":  ops.InstanceDetail{},
		"ClockReading":    ops.ClockReading{},
		"Ready":           ops.Ready{},
		"Reject":          ops.Rejected{},
		"RejectList":      ops.RejectList{},
		"RequeuedReject":  ops.RequeuedReject{},
		"Check":           ops.Check{},
		"Settled":         ops.Settled{},
		"SettledMany":     ops.SettledMany{},
	} {
		schema, known := doc.Components.Schemas[name]
		if !known {
			t.Errorf("there is no schema %s", name)
		}
		fields, required := fieldsOf(reflect.TypeOf(value))
		var described []string
		for field := range schema.Properties {
			described = append(described, field)
		}
		slices.Sort(described)
		slices.Sort(schema.Required)
		if !slices.Equal(fields, described) || !slices.Equal(required, schema.Required) {
			t.Errorf("%s: described %q, required %q; %T has %q, always %q", name, described, schema.Required, value,
				fields, required)
		}
	}
}

// fieldsOf are the names in JSON, and those that are always there.
func fieldsOf(of reflect.Type) (fields, required []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			inner, always := fieldsOf(field.Type)
			fields, required = append(fields, inner...), append(required, always...)
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields = append(fields, name)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(fields)
	slices.Sort(required)
	return fields, required
}

// The limits and words that the description states are those of the code.
func TestOpenAPI_HasTheLimitsOfTheCode(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(describe(""), &doc); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for k := message.KindPlain + 1; k.Valid(); k++ {
		kinds = append(kinds, k.String())
	}
	states := strings.Join(message.Words(), "|")
	const tenYears = int64(wire.MaxDelay / time.Millisecond)
	for _, c := range []struct {
		where string
		want  any
	}{
		{"schemas/State/enum", message.Words()}, {"schemas/Kind/enum", kinds},
		{"schemas/DifferenceKind/enum", []string{record.MissingInStore, record.EndedInStore, record.MissingInJournal,
			record.StoreOlder, record.StoreNewer}},
		{"schemas/Instance/properties/role/enum", []string{ops.RoleLeader, ops.RoleStandby, ops.RoleGone}},
		{"schemas/Cluster/properties/journal/properties/mode/enum",
			[]string{journalOff, journalAsync, journalSync}},
		{"schemas/Push/properties/on_duplicate/enum", []string{wire.Reject, wire.Keep, wire.Replace, wire.Debounce}},
		{"schemas/Push/properties/on_duplicate/default", wire.Reject},
		{"schemas/Push/properties/deliver/enum", []string{wire.MQ, wire.PullWord}},
		{"schemas/PullOrder/properties/max/maximum", ops.MaxPull},
		{"schemas/PullOrder/properties/max_bytes/maximum", ops.MaxPullBytes},
		{"schemas/PullOrder/properties/max_bytes/default", ops.PullBytes},
		{"schemas/PullOrder/properties/consumer/maxLength", ops.MaxConsumer},
		{"schemas/PullOrder/properties/sending/maximum", ops.MaxSendings},
		{"schemas/Receipts/properties/receipts/maxItems", ops.MaxPull},
		{"schemas/Accepted/properties/durable/enum",
			[]string{ops.DurableRedis, ops.DurableJournal, ops.DurableMemory}},
		{"schemas/Requeued/properties/durable/enum",
			[]string{ops.DurableRedis, ops.DurableJournal, ops.DurableMemory}},
		{"schemas/Canceled/properties/state/const", message.StateCanceled.String()},
		{"schemas/TopicName/maxLength", wire.MaxSubject}, {"schemas/Pattern/maxLength", wire.MaxSubject},
		{"schemas/Name/maxLength", wire.MaxID},
		{"parameters/KeyOfName/schema/maxLength", wire.MaxKey},
		{"schemas/Selection/properties/key/maxLength", wire.MaxKey},
		{"schemas/SelectionAndTime/properties/key/maxLength", wire.MaxKey},
		{"schemas/Requeue/properties/key/maxLength", wire.MaxKey},
		{"schemas/Purge/properties/key/maxLength", wire.MaxKey},
		{"schemas/Milliseconds/maximum", tenYears},
		{"schemas/Time/anyOf/2/minimum", int64(wire.SecondsBelow)},
		{"schemas/Moment/anyOf/2/minimum", int64(wire.SecondsBelow)},
		{"schemas/Retries/anyOf/1/maxItems", wire.MaxRetries},
		{"schemas/Push/properties/priority/maximum", wire.MaxPriority},
		{"schemas/Edit/properties/priority/maximum", wire.MaxPriority},
		{"schemas/Message/properties/priority/maximum", wire.MaxPriority},
		{"schemas/Rescheduled/properties/priority/maximum", wire.MaxPriority},
		{"schemas/Push/properties/attempt/maximum", wire.MaxAttempt},
		{"schemas/Batch/properties/messages/maxItems", ops.MaxBatch},
		{"schemas/BatchResults/properties/results/maxItems", ops.MaxBatch},
		{"schemas/Requeue/properties/ids/maxItems", ops.MaxIDs},
		{"schemas/Purge/properties/ids/maxItems", ops.MaxIDs},
		{"schemas/RequeueRejects/properties/sequences/maxItems", ops.MaxIDs},
		{"schemas/Restore/properties/rate/maximum", ops.MaxRate},
		{"schemas/Forecast/properties/steps/maxItems", ops.MaxSteps},
		{"schemas/Forecast/properties/groups/maxItems", ops.MaxTop},
		{"schemas/Cluster/properties/parked/maxItems", ops.MaxParked},
		{"schemas/Held/properties/groups/maxItems", ops.MaxGroups},
		{"schemas/Problem/properties/candidates/maxItems", scheduler.MaxNamesOfID},
		{"schemas/VerifyReport/properties/differences/maxItems", record.MaxDifferences},
		{"schemas/Quarantined/properties/uids/maxItems", record.MaxQuarantinedUIDs},
		{"parameters/Limit/schema/maximum", ops.MaxList}, {"parameters/Limit/schema/default", ops.DefaultList},
		{"../paths/~1v1~1messages/get/parameters/3/schema/pattern", "^(" + states + ")(,(" + states + "))*$"},
	} {
		want, err := json.Marshal(c.want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(lookUp(doc, path.Join("components", c.where)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is %s, want %s (%v)", c.where, got, want, err)
		}
	}
	for _, c := range [][2]string{
		{"paths/~1v1~1messages~1batch/post/summary", fmt.Sprint(ops.MaxBatch)},
		{"components/schemas/Retries/description", fmt.Sprintf("%d delays", wire.MaxRetries)},
		{"components/schemas/Retries/description", fmt.Sprintf("%d%%", wire.MaxJitter)},
		{"components/schemas/Headers/description", fmt.Sprintf("%d bytes", wire.MaxHeaders)},
		{"components/schemas/Push/properties/reason/description", fmt.Sprintf("%d bytes", wire.MaxReason)},
	} {
		if got := fmt.Sprint(lookUp(doc, c[0])); !strings.Contains(got, c[1]) {
			t.Errorf("%s is %q, which lacks %q", c[0], got, c[1])
		}
	}
}

// lookUp follows a JSON pointer; it returns nil where it ends.
func lookUp(value any, pointer string) any {
	for name := range strings.SplitSeq(pointer, "/") {
		switch v := value.(type) {
		case map[string]any:
			value = v[strings.ReplaceAll(name, "~1", "/")]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}
