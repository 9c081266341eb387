package preview

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Bounds of a plan as text.
const (
	// maxFieldLines is how many fields of an object are listed.
	maxFieldLines = 20
	// maxValueLength is the length of a value, in bytes.
	maxValueLength = 120
	// maxAlikeNames is how many names of instances that change alike are listed.
	maxAlikeNames = 5
)

// IncompleteText says what to do about an incomplete plan.
const IncompleteText = "The plan is incomplete: the controllers were still busy at the timeout. Raise --wait."

// Text returns the plan as text, in lines of at most width characters unless a word is longer.
func (p Plan) Text(width int) string { return p.TextWith(p.sentences(), width) }

// TextWith returns the plan as text with other sentences at its end.
func (p Plan) TextWith(sentences []string, width int) string {
	var b strings.Builder
	writeObjects(&b, "", p.Objects, width)
	for _, g := range p.groups() {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		g.write(&b, width)
	}
	if len(p.Objects)+len(p.Instances) > 0 {
		b.WriteString("\n")
	}
	p.writeProblems(&b, "Problems:", false, width)
	p.writeProblems(&b, "Problems that existed before:", true, width)
	for _, note := range p.Notes {
		diag.WrapHanging(&b, "note: ", strings.Fields(note), width)
	}
	for _, sentence := range sentences {
		diag.WrapHanging(&b, "", strings.Fields(sentence), width)
	}
	return b.String()
}

// problemsThatAre returns the problems that existed before, or the others.
func (p Plan) problemsThatAre(known bool) []Problem {
	return slices.DeleteFunc(slices.Clone(p.Problems), func(one Problem) bool { return one.Known != known })
}

func (p Plan) writeProblems(b *strings.Builder, title string, known bool, width int) {
	shown := p.problemsThatAre(known)
	if len(shown) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, one := range shown {
		one.write(b, width)
		if one.Remedy != "" {
			diag.WrapHanging(b, "    to do: ", strings.Fields(one.Remedy), width)
		}
	}
	b.WriteString("\n")
}

// String returns the problem as text: in one line, unless its message has several.
func (p Problem) String() string { return p.title() + ": " + p.Message }

func (p Problem) title() string {
	if p.Object == "" {
		return p.Reason
	}
	return p.Object + ": " + p.Reason
}

// write writes the problem; of a message of several lines, each is an item of a list.
func (p Problem) write(b *strings.Builder, width int) {
	lines := p.MessageLines()
	if len(lines) == 1 {
		diag.WrapHanging(b, "  ! ", strings.Fields(p.String()), width)
		return
	}
	diag.WrapHanging(b, "  ! ", strings.Fields(p.title()+":"), width)
	for _, line := range lines {
		diag.WrapHanging(b, "    - ", strings.Fields(line), width)
	}
}

// MessageLines are the lines of the message.
func (p Problem) MessageLines() []string { return strings.Split(p.Message, "\n") }

// sentences summarize the plan.
func (p Plan) sentences() []string {
	var out []string
	if p.Incomplete {
		out = append(out, IncompleteText)
	}
	switch {
	case p.IsEmpty() && p.Incomplete:
		return out
	case p.IsEmpty():
		return append(out, "Nothing would change.")
	}
	out = append(out, "Plan: "+p.Summary.String()+". Nothing was written.")
	if invalid := p.invalidNames(); len(invalid) == 1 {
		out = append(out, invalid[0]+" has errors and would not be served.")
	} else if len(invalid) > 1 {
		out = append(out, fmt.Sprintf("%d definitions have errors and would not be served: %s.", len(invalid), strings.Join(invalid, ", ")))
	}
	if p.Summary.Waiting > 0 {
		out = append(out, "What nodes that wait would do can be planned once the others are ready.")
	}
	return out
}

// String returns the counts that are not zero.
func (s Summary) String() string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{{s.Created, "created"}, {s.Changed, "changed"}, {s.Replaced, "replaced"}, {s.Deleted, "deleted"}, {s.Orphaned, "orphaned"},
		{s.Unchanged, "unchanged"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing changes")
	}
	text := strings.Join(parts, ", ")
	if s.Instances > 0 {
		text += "; " + diag.Counted(s.Instances, "instance", "instances")
	}
	if s.Problems > 0 {
		text += "; " + diag.Counted(s.Problems, "problem", "problems")
	}
	return text
}

// invalidNames are the definitions with errors.
func (p Plan) invalidNames() []string {
	var out []string
	for _, one := range p.Problems {
		if one.Invalid && !slices.Contains(out, one.Object) {
			out = append(out, one.Object)
		}
	}
	return out
}

// group is an instance, and others of its kind that change in the same way.
type group struct {
	Instance
	others []Ref
}

// groups groups the instances that change alike: if the names of the instances are left out, the text
// is the same.
func (p Plan) groups() []*group {
	var out []*group
	byText := map[string]*group{}
	for _, i := range p.Instances {
		text := i.fingerprint()
		if g, known := byText[text]; known {
			g.others = append(g.others, i.Ref)
			continue
		}
		g := &group{Instance: i}
		byText[text] = g
		out = append(out, g)
	}
	return out
}

// fingerprint is what the instance has in common with those that change alike.
func (i Instance) fingerprint() string {
	raw, err := json.Marshal(i)
	if err != nil {
		return i.String() // like no other
	}
	text := strings.ReplaceAll(string(raw), i.Name, "\x00")
	if i.Namespace != "" {
		text = strings.ReplaceAll(text, i.Namespace, "\x01")
	}
	return text
}

func (g *group) write(b *strings.Builder, width int) {
	if g.Action == Keep && !g.IsUnchanged() {
		diag.WrapHanging(b, "  ", strings.Fields(g.String()), width) // what changes are its objects
	} else {
		writeObjects(b, "", []ObjectChange{g.ObjectChange}, width)
	}
	if len(g.others) > 0 {
		names := make([]string, 0, maxAlikeNames)
		for _, o := range g.others[:min(len(g.others), maxAlikeNames)] {
			names = append(names, strings.TrimPrefix(o.Key().String(), o.Kind+" "))
		}
		text := fmt.Sprintf("and %d more alike: %s", len(g.others), strings.Join(names, ", "))
		if len(g.others) > maxAlikeNames {
			text += ", …"
		}
		diag.WrapHanging(b, "  ", strings.Fields(text), width)
	}
	writeObjects(b, "  ", g.Objects, width)
	for _, w := range g.Waits {
		diag.WrapHanging(b, "  ? ", strings.Fields(w.String()), width)
	}
}

// signs mark the lines of actions.
var signs = map[Action]string{Create: "+", Change: "~", Replace: "±", Delete: "-", Orphan: "o", Keep: " "}

// actionTexts say in words what would happen to an object.
var actionTexts = map[Action]string{Create: "create", Change: "change", Replace: "replace: delete and create again", Delete: "delete",
	Orphan: "orphan: it stays and no longer belongs to the instance", Keep: "unchanged"}

// writeObjects writes objects. Those that follow each other and change alike are written as one.
func writeObjects(b *strings.Builder, indent string, all []ObjectChange, width int) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].isAlike(all[0]) {
			n++
		}
		writeAlike(b, indent, all[:n], width)
		all = all[n:]
	}
}

// isAlike reports whether two objects change in the same fields to the same values, or do not change.
func (o ObjectChange) isAlike(other ObjectChange) bool {
	return o.Action == other.Action && (len(o.Fields) > 0 || o.Action == Keep) && reflect.DeepEqual(o.Fields, other.Fields)
}

func writeAlike(b *strings.Builder, indent string, alike []ObjectChange, width int) {
	names := make([]string, len(alike))
	for i, o := range alike {
		text := o.String()
		if o.Node != "" {
			text += " (" + o.Node + ")"
		}
		names[i] = strings.ReplaceAll(text, " ", "\u00a0") // no line break within a name
	}
	o := alike[0]
	text := strings.Join(names, ", ") + ": " + actionTexts[o.Action]
	if o.Action == Change && len(o.Fields) == 0 {
		text += ": only records of Espalier"
	}
	diag.WrapHanging(b, indent+signs[o.Action]+" ", strings.Split(text, " "), width)
	for _, f := range o.Fields[:min(len(o.Fields), maxFieldLines)] {
		diag.WrapHanging(b, indent+"    ", strings.Fields(f.String()), width)
	}
	if more := len(o.Fields) - maxFieldLines; more > 0 {
		diag.WrapHanging(b, indent+"    ", []string{fmt.Sprintf("and %s", diag.Counted(more, "more field", "more fields"))}, width)
	}
}

// String returns the change in one line.
func (f FieldChange) String() string {
	switch {
	case f.Hidden && f.Added:
		return f.Path + ": set (hidden)"
	case f.Hidden && f.Removed:
		return f.Path + ": removed (hidden)"
	case f.Hidden:
		return f.Path + ": changed (hidden)"
	case f.Added:
		return f.Path + ": set to " + shortened(f.After)
	case f.Removed:
		return f.Path + ": " + shortened(f.Before) + " removed"
	}
	return f.Path + ": " + shortened(f.Before) + " → " + shortened(f.After)
}

func shortened(value json.RawMessage) string {
	return diag.TruncateMiddle(managerDigest.ReplaceAllString(string(value), "$1…"), maxValueLength)
}

// Markdown returns the plan in Markdown, for a comment on a pull request.
func (p Plan) Markdown() string {
	var b strings.Builder
	b.WriteString("### Plan of `espalier plan`\n\n")
	for _, sentence := range p.sentences() {
		b.WriteString(sentence + "\n")
	}
	if len(p.Problems) > 0 {
		b.WriteString("\n**Problems**\n\n")
		for _, one := range p.Problems {
			lines := one.MessageLines()
			if len(lines) == 1 {
				b.WriteString("- " + escape(one.String()) + "\n")
				continue
			}
			b.WriteString("- " + escape(one.title()+":") + "\n")
			for _, line := range lines {
				b.WriteString("  - " + escape(line) + "\n")
			}
		}
	}
	if len(p.Objects)+len(p.Instances) > 0 {
		text := p.changesText()
		fence := strings.Repeat("`", max(3, longestFence(text)+1))
		b.WriteString("\n<details><summary>Changes</summary>\n\n" + fence + "diff\n" + text + fence + "\n\n</details>\n")
	}
	for _, note := range p.Notes {
		b.WriteString("\n> " + escape(note) + "\n")
	}
	return b.String()
}

// changesText is the list of changes alone, in lines as long as they come.
func (p Plan) changesText() string {
	var b strings.Builder
	writeObjects(&b, "", p.Objects, 0)
	for _, g := range p.groups() {
		g.write(&b, 0)
	}
	return b.String()
}

// longestFence is the length of the longest run of backquotes.
func longestFence(text string) int {
	longest, run := 0, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// special are the characters that Markdown and HTML would interpret.
const special = "\\`*_{}[]<>()#+!|~@&"

// escape returns text that Markdown shows as it is, in one line.
func escape(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if slices.Contains([]rune(special), r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
