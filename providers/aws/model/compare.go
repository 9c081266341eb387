package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/transform"
)

// Difference is a property that is not as wanted.
type Difference struct {
	// Path has the names of properties and the indexes of items.
	Path        []any
	Wanted, Got any
	// Exists reports whether the resource has a value at the path.
	Exists bool
	// CreateOnly reports whether it cannot be changed.
	CreateOnly bool
}

// Comparison is the result of a comparison.
type Comparison struct {
	Differences []Difference
	// FailedTransforms counts the transforms of the schema that could not be evaluated. They are ignored.
	FailedTransforms int
}

// Compare compares a desired state with what a read returned. Only what the desired state sets is compared,
// nothing that reads do not return, and nothing that the type ignores.
func Compare(t *resourcetype.Type, wanted, read map[string]any) Comparison {
	work := maxWork
	return compare(t, wanted, read, &work)
}

// It takes its steps from the work that is left.
func compare(t *resourcetype.Type, wanted, read map[string]any, work *int) Comparison {
	c := comparer{
		t: t, root: wanted, work: work, writeOnly: newPaths(t.WriteOnlyProperties, t.IgnoredProperties), readOnly: newPaths(settable(t)),
		createOnly: newPaths(t.CreateOnlyProperties), transforms: transformsOf(t), tags: TagsOf(t),
	}
	if len(t.Handlers) > 0 {
		_, updates := t.Handlers[resourcetype.Update]
		c.frozen = !updates
	}
	c.object(&t.Schema, wanted, read, place{write: c.writeOnly, read: c.readOnly, create: c.createOnly, transform: c.transforms})
	return Comparison{c.found, c.failed}
}

type comparer struct {
	t    *resourcetype.Type
	root map[string]any

	writeOnly, readOnly, createOnly *paths
	transforms                      *transforms
	tags                            Tags
	// frozen: nothing can be changed.
	frozen bool

	// work is what is left for the search for pairs of items.
	work *int

	found  []Difference
	failed int
}

type place struct {
	path                []any
	write, read, create *paths
	transform           *transforms
}

func (p place) field(name string) place {
	return place{append(slices.Clone(p.path), name), p.write.field(name), p.read.field(name), p.create.field(name), p.transform.field(name)}
}

func (p place) item(i int) place {
	return place{append(slices.Clone(p.path), i), p.write.item(), p.read.item(), p.create.item(), p.transform.item()}
}

func (c *comparer) add(p place, wanted, got any, exists bool) {
	c.found = append(c.found, Difference{p.path, wanted, got, exists, c.frozen || isFixed(wanted, p.create)})
}

func isFixed(value any, createOnly *paths) bool {
	object, ok := value.(map[string]any)
	if createOnly.isIn() || !ok || len(object) == 0 || createOnly.isEmpty() {
		return createOnly.isIn()
	}
	for key, item := range object {
		if !isFixed(item, createOnly.field(key)) {
			return false
		}
	}
	return true
}

func (c *comparer) object(s *resourcetype.Schema, wanted, read map[string]any, p place) {
	known := fields(c.t, s)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		field, isKnown := known[name]
		if !isKnown {
			field = valueOf(c.t, s, name)
		}
		got, exists := read[name]
		below := p.field(name)
		switch {
		case below.write.isIn(), below.read.isIn(), isSecretRef(wanted[name]):
		case len(p.path) == 0 && name == c.tags.Property:
			c.compareTags(wanted[name], got, exists, below)
		default:
			c.value(field, wanted[name], got, exists, wanted, below)
		}
	}
}

// Around is the object that it is in, which transforms need.
func (c *comparer) value(s *resourcetype.Schema, wanted, got any, exists bool, around map[string]any, p place) {
	s = c.t.Resolve(s)
	if !exists || got == nil {
		if !c.mayBeMissing(s, wanted, p) && !c.isTransformed(s, nil, around, p) {
			c.add(p, wanted, nil, exists)
		}
		return
	}
	switch w := wanted.(type) {
	case map[string]any:
		if r, ok := got.(map[string]any); ok && !isDocument(c.t, s) {
			c.object(s, w, r, p)
			return
		}
	case []any:
		if r, ok := got.([]any); ok {
			c.array(s, w, r, around, p)
			return
		}
		if len(w) == 1 && c.isEqual(s, w[0], got) { // one value for a list of one
			return
		}
	}
	if !c.isEqual(s, wanted, got) && !c.isTransformed(s, got, around, p) {
		c.add(p, wanted, got, true)
	}
}

// AWS may leave a value out of what it returns if it is blank, or the default, or an object without anything that reads
// return.
func (c *comparer) mayBeMissing(s *resourcetype.Schema, wanted any, p place) bool {
	if isBlank(wanted) {
		return true
	}
	if s != nil && len(s.Default) > 0 {
		if standard, err := decode(s.Default); err == nil && c.isEqual(s, wanted, standard) {
			return true
		}
	}
	object, isObject := wanted.(map[string]any)
	if !isObject || p.write.isEmpty() {
		return false
	}
	known := fields(c.t, s)
	for name, value := range object {
		below := p.field(name)
		if !below.write.isIn() && !isSecretRef(value) && !c.mayBeMissing(c.t.Resolve(known[name]), value, below) {
			return false
		}
	}
	return true
}

// Schemas below the values do not count.
func (c *comparer) isEqual(s *resourcetype.Schema, wanted, got any) bool {
	if sameScalar(wanted, got) || sameDocument(wanted, got) {
		return true
	}
	left, isString := wanted.(string)
	right, areStrings := got.(string)
	if !isString || !areStrings {
		return isBlank(wanted) && isBlank(got)
	}
	return s != nil && len(s.EnumCaseInsensitive) > 0 && strings.EqualFold(left, right) ||
		sameNetwork(left, right) || sameTime(left, right)
}

// AWS returns 10.0.0.0/16 for 10.0.1.1/16.
func sameNetwork(a, b string) bool {
	x, xErr := netip.ParsePrefix(a)
	y, yErr := netip.ParsePrefix(b)
	return xErr == nil && yErr == nil && x.Masked() == y.Masked()
}

// Zones and precisions may differ.
func sameTime(a, b string) bool {
	x, xErr := time.Parse(time.RFC3339, a)
	y, yErr := time.Parse(time.RFC3339, b)
	return xErr == nil && yErr == nil && x.Truncate(time.Second).Equal(y.Truncate(time.Second))
}

// Items of different arrays are compared one by one if their order has a meaning and there are as many of them;
// otherwise, the whole arrays differ.
func (c *comparer) array(s *resourcetype.Schema, wanted, got []any, around map[string]any, p place) {
	schema := arrayOf(c.t, s, maxBranches)
	items := schema.Items
	same := func(w, g any, i int) bool {
		trial := comparer{t: c.t, root: c.root, tags: c.tags, work: c.work}
		trial.value(items, w, g, true, around, p.item(i))
		c.failed += trial.failed
		return len(trial.found) == 0
	}
	isUnordered := schema.InsertionOrder != nil && !*schema.InsertionOrder
	isPart := schema.ArrayType == "AttributeList"
	switch {
	case isUnordered || isPart:
		if len(wanted) > len(got) || len(wanted) < len(got) && !isPart || !matchAll(wanted, got, c.work, same) {
			c.addArray(wanted, got, around, s, p)
		}
	case len(wanted) != len(got):
		c.addArray(wanted, got, around, s, p)
	default:
		for i := range wanted {
			c.value(items, wanted[i], got[i], true, around, p.item(i))
		}
	}
}

func (c *comparer) addArray(wanted, got []any, around map[string]any, s *resourcetype.Schema, p place) {
	if !c.isTransformed(s, got, around, p) {
		c.add(p, wanted, got, true)
	}
}

// maxWork bounds the search for pairs of items in one comparison, in steps of the search. It takes quadratic time and
// more, and AWS, or the server in its place, chooses what is compared.
const maxWork = 1 << 22

// A comparison of two items takes about the time of pairSteps, of one more for each bytesPerStep of their JSON, and
// of transformSteps for each evaluation of a transform.
const (
	pairSteps      = 32
	bytesPerStep   = 16
	transformSteps = 400
)

// Each wanted item needs its own equal item. When no work is left, items are compared in their order.
func matchAll(wanted, got []any, work *int, same func(w, g any, i int) bool) bool {
	exact := map[string][]int{}
	gotSize := make([]int, len(got))
	for j, g := range got {
		key := string(encode(g))
		exact[key], gotSize[j] = append(exact[key], j), len(key)
		*work -= 1 + len(key)/bytesPerStep
	}
	owner := make([]int, len(got)) // the wanted item of each, counted from 1
	wantedSize := make([]int, len(wanted))
	var left []int
	for i, w := range wanted {
		key := string(encode(w))
		wantedSize[i] = len(key)
		*work -= 1 + len(key)/bytesPerStep
		if js := exact[key]; len(js) > 0 {
			owner[js[0]], exact[key] = i+1, js[1:]
			continue
		}
		left = append(left, i)
	}
	found := slices.Clone(owner)
	known := map[[2]int]bool{}
	isSame := func(i, j int) bool {
		*work--
		answer, ok := known[[2]int{i, j}]
		if !ok {
			*work -= pairSteps + (wantedSize[i]+gotSize[j])/bytesPerStep
			answer = same(wanted[i], got[j], i)
			known[[2]int{i, j}] = answer
		}
		return answer
	}
	var find func(i int, visited map[int]bool) bool
	find = func(i int, visited map[int]bool) bool {
		for j := range got {
			if *work <= 0 {
				return false
			}
			if visited[j] || !isSame(i, j) {
				continue
			}
			visited[j] = true
			if found[j] == 0 || find(found[j]-1, visited) {
				found[j] = i + 1
				return true
			}
		}
		return false
	}
	if !slices.ContainsFunc(left, func(i int) bool { return !find(i, map[int]bool{}) }) {
		return true
	}
	return *work <= 0 && matchInOrder(wanted, got, left, owner, same)
}

// The wanted items that are left are compared with the items without an owner, in their order.
func matchInOrder(wanted, got []any, left, owner []int, same func(w, g any, i int) bool) bool {
	j := 0
	for _, i := range left {
		for j < len(got) && owner[j] != 0 {
			j++
		}
		if j == len(got) || !same(wanted[i], got[j], i) {
			return false
		}
		j++
	}
	return true
}

func (c *comparer) isTransformed(s *resourcetype.Schema, got any, around map[string]any, p place) bool {
	if p.transform == nil || p.transform.expression == "" {
		return false
	}
	for _, context := range []map[string]any{around, c.root} {
		*c.work -= transformSteps
		results, failed := transform.Apply(p.transform.expression, context)
		if context != nil && failed > 0 && len(results) == 0 {
			c.failed++
		}
		for _, result := range results {
			if result == nil && isBlank(got) || result != nil && c.isEqual(s, result, got) || transform.Matches(result, got) {
				return true
			}
		}
	}
	return false
}

// transforms are the expressions of the schema as a tree of paths.
type transforms struct {
	below      map[string]*transforms
	expression string
}

func transformsOf(t *resourcetype.Type) *transforms {
	root := &transforms{}
	for _, path := range slices.Sorted(maps.Keys(t.PropertyTransform)) {
		at := root
		for _, name := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "/"), "properties"), "/"), "/") {
			if at.below == nil {
				at.below = map[string]*transforms{}
			}
			if at.below[name] == nil {
				at.below[name] = &transforms{}
			}
			at = at.below[name]
		}
		at.expression = t.PropertyTransform[path]
	}
	return root
}

func (t *transforms) field(name string) *transforms {
	if t == nil {
		return nil
	}
	return t.below[name]
}

func (t *transforms) item() *transforms {
	if t == nil || t.below["*"] == nil {
		return t
	}
	return t.below["*"]
}

// Bounds of the description of differences, in bytes and in their number.
const (
	maxValueText   = 80
	maxDifferences = 5
)

// String describes the differences for people.
func (c Comparison) String() string {
	var all []string
	for i, d := range c.Differences {
		if i == maxDifferences {
			all = append(all, fmt.Sprintf("and %d more", len(c.Differences)-i))
			break
		}
		all = append(all, d.String())
	}
	return strings.Join(all, "; ")
}

// String describes the difference for people.
func (d Difference) String() string {
	name := d.Name()
	switch {
	case isSensitive(d.Path):
		return name + " differs"
	case !d.Exists:
		return fmt.Sprintf("%s is unset, and should be %s", name, shorten(d.Wanted))
	}
	return fmt.Sprintf("%s is %s, and should be %s", name, shorten(d.Got), shorten(d.Wanted))
}

// Name is the path with dots.
func (d Difference) Name() string {
	var b strings.Builder
	for i, step := range d.Path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// The name of the property decides.
func isSensitive(path []any) bool {
	for _, step := range path {
		if name, ok := step.(string); ok && resourcetype.IsSecret(resourcetype.Path{name}) {
			return true
		}
	}
	return false
}

func shorten(value any) string {
	s := string(encode(redacted(value)))
	if len(s) <= maxValueText {
		return s
	}
	cut := maxValueText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func redacted(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = redacted(item)
			if resourcetype.IsSecret(resourcetype.Path{key}) {
				out[key] = "(hidden)"
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = redacted(item)
		}
		return out
	}
	return value
}
