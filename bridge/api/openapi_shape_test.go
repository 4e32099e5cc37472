package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// The types that answers are made of have the fields of their schemas, and what is never left out is required.
func TestOpenAPI_SchemasHaveTheFieldsOfTheirTypes(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(document(""))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"Problem":         wire.Problem{},
		"Canceled":        wire.Canceled{},
		"Message":         wire.Info{},
		"Rescheduled":     wire.Rescheduled{},
		"Report":          wire.Report{},
		"MessageList":     listAnswer{},
		"Lag":             lagAnswer{},
		"Topics":          topicsAnswer{},
		"TopicCounts":     oneTopicAnswer{},
		"Pause":           pauseAnswer{},
		"Paused":          pausedAnswer{},
		"History":         historyAnswer{},
		"Life":            lifeAnswer{},
		"Change":          changeAnswer{},
		"Forecast":        forecastAnswer{},
		"RestoreReport":   restoreAnswer{},
		"VerifyReport":    verifyAnswer{},
		"Difference":      differenceAnswer{},
		"RedeliverReport": redeliverAnswer{},
		"Cluster":         clusterAnswer{},
		"Instance":        Instance{},
		"Ready":           readyAnswer{},
		"Reject":          wire.Rejected{},
		"RejectList":      rejectsAnswer{},
		"RequeuedReject":  requeuedReject{},
		"Check":           checkAnswer{},
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
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	slices.Sort(fields)
	slices.Sort(required)
	return fields, required
}

func TestObject_KeepsTheOrderOfItsMembers(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(object{{"z", 1}, {"a", object{{"<", `"`}}}, {"m", []object{{}}}})
	if err != nil || string(text) != `{"z":1,"a":{"\u003c":"\""},"m":[{}]}` {
		t.Errorf("got %s, %v", text, err)
	}
	if text, err := json.Marshal(object{{"f", func() {}}}); err == nil {
		t.Errorf("got %s", text)
	}
	if text := fmt.Sprint(document("v9")[0]); text != "{openapi 3.1.0}" {
		t.Errorf("got %s", text)
	}
}
