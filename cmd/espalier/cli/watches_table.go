package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
)

// watchesText formats watches for a screen of the given width, with a summary; a width of 0
// means no limit.
func watchesText(all []introspect.Watch, width int) string {
	text := watchesTable(all)
	if !fits(text, width) {
		text = narrowWatches(all, width)
	}
	return text + watchesSummary(all) + "\n"
}

// watchesTable formats watches as a table with one line each, in their order.
func watchesTable(all []introspect.Watch) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) {
		for i, cell := range cells {
			cells[i] = observe.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	impersonated := slices.ContainsFunc(all, func(x introspect.Watch) bool { return x.As != "" })
	as := func(cells []string, user string) []string {
		if impersonated {
			return slices.Insert(cells, 2, user)
		}
		return cells
	}
	if len(all) > 0 {
		line(as([]string{"KIND", "SELECTION", "STATE", "REASON", "SUBSCRIBERS", "OBJECTS", "EVENTS", "AGE", "WHY"}, "AS")...)
	}
	for _, x := range all {
		line(as([]string{
			fullKind(x), x.Selection, x.State, x.Reason,
			strconv.Itoa(x.Subscribers), strconv.Itoa(x.Objects), strconv.FormatUint(x.Events, 10),
			observe.Age(time.Duration(x.AgeSeconds) * time.Second), x.Message,
		}, strings.TrimPrefix(x.As, "system:serviceaccount:"))...)
	}
	_ = w.Flush() // a strings.Builder never fails
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n") // removes the padding at the ends of lines
	}
	return out.String()
}

// fullKind is a kind with its group and version: Vpc.kro.run/v1.
func fullKind(w introspect.Watch) string {
	return schema.GroupKind{Group: w.Group, Kind: w.Kind}.String() + "/" + w.Version
}

func watchesSummary(all []introspect.Watch) string {
	if len(all) == 0 {
		return "no watches"
	}
	kinds := map[schema.GroupKind]bool{}
	objects, unavailable := 0, 0
	for _, w := range all {
		kinds[schema.GroupKind{Group: w.Group, Kind: w.Kind}] = true
		objects += w.Objects
		if w.Unavailable() {
			unavailable++
		}
	}
	text := fmt.Sprintf("%s of %s, %s", diag.Counted(len(all), "watch", "watches"), diag.Counted(len(kinds), "kind", "kinds"),
		diag.Counted(objects, "object", "objects"))
	if unavailable > 0 {
		text += fmt.Sprintf("; %d unavailable", unavailable)
	}
	return text
}
