package takeover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Text returns the plan as text, in lines of at most width characters unless a word is longer.
func (p Plan) Text(width int) string {
	var b strings.Builder
	for _, g := range p.Groups {
		if p.BackTo == "" || g.isChanged() {
			g.write(&b, width)
		}
	}
	writeRefusals(&b, "Not taken over, or in need of attention:", p.Refusals, false, width)
	writeRefusals(&b, "Problems that existed before:", p.Refusals, true, width)
	for _, note := range p.Notes {
		diag.WrapHanging(&b, "note: ", strings.Fields(note+"."), width)
	}
	if p.Refused != "" {
		diag.WrapHanging(&b, "", strings.Fields("The controllers would not start: "+p.Refused), width)
		b.WriteString("Nothing was written.\n")
		return b.String()
	}
	if p.Unsettled {
		diag.WrapHanging(&b, "", strings.Fields("The plan is incomplete: the controllers were still busy at the timeout. Raise --wait."), width)
	}
	for _, sentence := range p.sentences() {
		diag.WrapHanging(&b, "", strings.Fields(sentence), width)
	}
	return b.String()
}

// sentences summarize the plan.
func (p Plan) sentences() []string {
	s := p.Summary
	if p.BackTo != "" {
		return []string{
			fmt.Sprintf("%s, of those %d as %s needs them, %d changed.", diag.Counted(s.Objects, "object", "objects"), s.Unchanged, p.BackTo, s.Changed),
			p.writtenText(),
		}
	}
	counts := fmt.Sprintf("%s, of those %d unchanged, %d changed, %d created, %d deleted, %d recreated; %d not taken over or in need of attention.",
		diag.Counted(s.Objects, "object", "objects"), s.Unchanged, s.Changed, s.Created, s.Deleted, s.Recreated, s.Refused)
	if p.isComplete() {
		return []string{counts, "All of them are Espalier's already: nothing needs a takeover.", p.writtenText()}
	}
	made := "Nothing would be created, deleted or recreated."
	if s.Created+s.Deleted+s.Recreated > 0 {
		made = fmt.Sprintf("Objects would be created, deleted or recreated: %d, see above.", s.Created+s.Deleted+s.Recreated)
	}
	if s.Installed > 0 {
		made += fmt.Sprintf(" Espalier's own CustomResourceDefinitions would be installed: %d.", s.Installed)
	}
	return []string{counts, made, p.writtenText()}
}

// isComplete says whether there are objects, and nothing of them is left to take over.
func (p Plan) isComplete() bool {
	s := p.Summary
	return s.Objects > 0 && s.Unchanged == s.Objects && s.Installed+s.Refused == 0 && !p.Unsettled
}

func (p Plan) writtenText() string {
	if p.Written {
		return "The changes were written."
	}
	return "Nothing was written."
}

func (g Group) isChanged() bool {
	return slices.ContainsFunc(g.Objects, func(o Object) bool { return o.Action != Unchanged })
}

// write writes the group as text. Objects with the same differences are listed together.
func (g Group) write(b *strings.Builder, width int) {
	title := g.Instance
	if title == "" {
		title = "Definitions and other objects"
	}
	b.WriteString(title + "\n")
	var order []string
	namesByText := map[string][]string{}
	for _, o := range g.Objects {
		if o.Own && o.Action == Unchanged {
			continue
		}
		text := o.text(width)
		if _, ok := namesByText[text]; !ok {
			order = append(order, text)
		}
		namesByText[text] = append(namesByText[text], o.String())
	}
	for _, text := range order {
		words := make([]string, len(namesByText[text]))
		for i, name := range namesByText[text] {
			words[i] = strings.ReplaceAll(name, " ", "\u00a0") // no line break within a name
			if i < len(words)-1 {
				words[i] += ","
			}
		}
		diag.WrapHanging(b, "  ", words, width)
		b.WriteString(text)
	}
	b.WriteString("\n")
}

// text returns the object's action and differences.
func (o Object) text(width int) string {
	var b strings.Builder
	switch o.Action {
	case Unchanged:
		b.WriteString("    unchanged\n")
	case Created:
		b.WriteString("    would be CREATED\n")
	case Deleted:
		b.WriteString("    would be DELETED\n")
	case Recreated:
		b.WriteString("    would be RECREATED\n")
	case Changed:
	}
	for _, d := range o.Differences {
		d.write(&b, width)
	}
	return b.String()
}

// aspectWidth is the width of the column of aspects.
const aspectWidth = 13

func (d Difference) write(b *strings.Builder, width int) {
	first := true
	line := func(text string) {
		name := ""
		if first {
			name, first = string(d.Aspect)+":", false
		}
		diag.WrapHanging(b, fmt.Sprintf("    %-*s", aspectWidth, name), strings.Split(text, " "), width) // Fields would split items, too
	}
	for _, r := range d.Renamed {
		line(shortenDigest(r.From) + " → " + shortenDigest(r.To))
	}
	list := func(sign string, all []string) {
		items := make([]string, len(all))
		for i, item := range all {
			items[i] = strings.ReplaceAll(shortenDigest(item), " ", "\u00a0")
		}
		if len(items) > 0 {
			line(sign + " " + strings.Join(items, ", "))
		}
	}
	list("+", d.Added)
	list("-", d.Removed)
	list("~", d.Changed)
}

// digestLength is how many characters of the digest in a field manager's name are shown.
const digestLength = 8

// shortenDigest returns a field manager's name with a shortened digest.
func shortenDigest(name string) string {
	at := strings.LastIndex(name, "composed/")
	if at < 0 {
		return name
	}
	from := at + len("composed/") + digestLength
	end := from
	for end < len(name) && strings.IndexByte("0123456789abcdef", name[end]) >= 0 {
		end++
	}
	if end <= from {
		return name
	}
	return name[:from] + "…" + name[end:]
}

func writeRefusals(b *strings.Builder, title string, all []Refusal, known bool, width int) {
	first := true
	for _, r := range all {
		if r.Known != known {
			continue
		}
		if first {
			b.WriteString(title + "\n")
			first = false
		}
		name := r.Object
		if name == "" {
			name = "the cluster"
		}
		title := fmt.Sprintf("%s: %s:", name, r.Reason)
		if lines := r.MessageLines(); len(lines) == 1 {
			diag.WrapHanging(b, "  ", strings.Fields(title+" "+r.Message), width)
		} else {
			diag.WrapHanging(b, "  ", strings.Fields(title), width)
			for _, line := range lines {
				diag.WrapHanging(b, "    - ", strings.Fields(line), width)
			}
		}
		if r.Remedy != "" {
			diag.WrapHanging(b, "    remedy: ", strings.Fields(r.Remedy), width)
		}
	}
	if !first {
		b.WriteString("\n")
	}
}
