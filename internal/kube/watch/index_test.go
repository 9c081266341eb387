package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

// checked is an index beside a plain list of all interests. It fails if the two disagree, or if the
// index is larger than it needs to be.
type checked struct {
	index *index[int]
	plain map[pair]int
}

type pair struct {
	subscriber int
	route      route
}

func (c *checked) add(p pair) {
	c.index.add(p.subscriber, p.route)
	c.plain[p]++
}

func (c *checked) remove(p pair) {
	c.index.remove(p.subscriber, p.route)
	if c.plain[p]--; c.plain[p] <= 0 {
		delete(c.plain, p)
	}
}

func (c *checked) find(at identity) []int {
	var out uniqueSet[int]
	c.index.find(at, &out)
	return slices.Sorted(slices.Values(out.list))
}

func (c *checked) want(at identity) []int {
	found := map[int]bool{}
	for p := range c.plain {
		r := p.route
		switch r.by {
		case byName:
			found[p.subscriber] = found[p.subscriber] || at.objectName == objectName{r.namespace, r.name}
		case byOwner:
			owner, ok := at.labels.Lookup(partOf)
			found[p.subscriber] = found[p.subscriber] || ok && owner == r.owner
		case byLabels:
			in := r.namespace == "" || r.namespace == at.namespace
			found[p.subscriber] = found[p.subscriber] || in && parsed(r.labels).Matches(at.labels)
		}
	}
	maps.DeleteFunc(found, func(_ int, concerned bool) bool { return !concerned })
	return slices.Sorted(maps.Keys(found))
}

// size counts the entries of the index.
func (c *checked) size() (have, need int) {
	filed := 0
	for _, buckets := range c.index.keyed {
		for _, groups := range buckets {
			filed += len(groups)
		}
	}
	for _, groups := range c.index.scanned {
		filed += len(groups)
	}
	distinct := map[route]bool{}
	selectors := 0
	for p := range c.plain {
		if !distinct[p.route] && p.route.by == byLabels {
			selectors++
		}
		distinct[p.route] = true
	}
	x := c.index
	return len(x.names) + len(x.owners) + len(x.groups) + filed, len(distinct) + selectors
}

var (
	someNamespace = rapid.SampledFrom([]string{"", "a", "b"})
	someName      = rapid.SampledFrom([]string{"x", "y", "z"})
	someSelector  = rapid.SampledFrom([]string{
		"", "app=db", "app=web", "app in (db)", "app in (db,web)", "app", "!app", "app!=db",
		"app=db,tier=1", "tier=1", "tier notin (1)", partOf + "=x",
	})
	somePlace = rapid.Custom(func(t *rapid.T) identity {
		set := labelSet{}
		for _, key := range []string{"app", "tier", partOf} {
			if value := rapid.SampledFrom([]string{"", "db", "web", "1", "x"}).Draw(t, key); value != "" {
				set[key] = value
			}
		}
		return identity{objectName{someNamespace.Draw(t, "namespace"), someName.Draw(t, "name")}, set}
	})
	somePair = rapid.Custom(func(t *rapid.T) pair {
		p := pair{subscriber: rapid.IntRange(0, 20).Draw(t, "subscriber")}
		switch p.route.by = rapid.SampledFrom([]by{byName, byOwner, byLabels}).Draw(t, "by"); p.route.by {
		case byName:
			p.route.namespace, p.route.name = someNamespace.Draw(t, "namespace"), someName.Draw(t, "name")
		case byOwner:
			p.route.owner = someName.Draw(t, "owner")
		case byLabels:
			p.route.namespace, p.route.labels = someNamespace.Draw(t, "namespace"), someSelector.Draw(t, "selector")
		}
		return p
	})
)

func TestIndexAgreesWithAPlainList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &checked{newIndex[int](partOf), map[pair]int{}}
		var held []pair
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				p := somePair.Draw(t, "pair")
				c.add(p)
				held = append(held, p)
			},
			"remove": func(t *rapid.T) {
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "i")
					c.remove(held[i])
					held = slices.Delete(held, i, i+1)
				}
			},
			"remove what isn't there": func(t *rapid.T) { c.remove(somePair.Draw(t, "pair")); held = c.held() },
			"": func(t *rapid.T) {
				at := somePlace.Draw(t, "object")
				if diff := cmp.Diff(c.want(at), c.find(at)); diff != "" {
					t.Fatalf("%v wakes others (-want +got):\n%s", at, diff)
				}
				if have, need := c.size(); have != need {
					t.Fatalf("the index holds %d entries for %d routes", have, need)
				}
			},
		})
	})
}

func (c *checked) held() (all []pair) {
	for p, times := range c.plain {
		for range times {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b pair) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// BenchmarkRoute finds the one instance among 10,000 that a child of 50,000
// belongs to.
func BenchmarkRoute(b *testing.B) {
	x := newIndex[int](partOf)
	app, _ := labels.Parse("app=db")
	x.add(-1, Matching(configMap, "other", app).route)
	for i := range 10_000 {
		x.add(i, route{by: byOwner, owner: fmt.Sprint("owner-", i)})
		for n := range 5 {
			x.add(i, route{by: byName, namespace: "default", name: fmt.Sprintf("child-%d-%d", i, n)})
		}
	}
	at := identity{objectName{"default", "child-777-3"}, labelSet{partOf: "owner-777", "app": "db"}}
	for b.Loop() {
		var out uniqueSet[int]
		x.find(at, &out)
		if len(out.list) != 1 {
			b.Fatal(out.list)
		}
	}
}
