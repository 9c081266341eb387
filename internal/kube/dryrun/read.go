package dryrun

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (c call) get() (*http.Response, error) {
	if now, changed := c.overlay.lookup(c.info.key()); changed {
		if now == nil {
			return c.notFound().response(c.request), nil
		}
		return objectAnswer(http.StatusOK, c.inVersion(now)).response(c.request), nil
	}
	if c.overlay.installedKind(c.info.resource) != nil {
		return c.notFound().response(c.request), nil
	}
	return c.next.RoundTrip(c.request)
}

func (c call) inVersion(o *unstructured.Unstructured) *unstructured.Unstructured {
	return c.overlay.converted(c.info.resource.GroupResource(), o, c.info.resource.GroupVersion())
}

type selection struct {
	info   requestInfo
	labels labels.Selector
	fields fields.Selector
}

func (c call) selection() (selection, error) {
	q := c.request.URL.Query()
	byLabels, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return selection{}, err
	}
	byFields, err := fields.ParseSelector(q.Get("fieldSelector"))
	at := c.info
	at.name = ""
	return selection{at, byLabels, byFields}, err
}

// Events can be selected by their reason as well.
func (s selection) matches(k key, o *unstructured.Unstructured) bool {
	reason, _, _ := unstructured.NestedString(o.Object, "reason")
	return k.group == s.info.resource.Group && k.resource == s.info.resource.Resource &&
		(s.info.namespace == "" || s.info.namespace == k.namespace) && s.labels.Matches(labels.Set(o.GetLabels())) &&
		s.fields.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace(), "reason": reason})
}

// They are the objects as of the resource version that a request names exactly. Of a planned object only the last state
// is known: before that, the object counts as the server has it.
func (c call) changedAt(changed map[key]*unstructured.Unstructured) map[key]*unstructured.Unstructured {
	q := c.request.URL.Query()
	if q.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact) {
		return changed
	}
	exact, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	if err != nil {
		return changed
	}
	maps.DeleteFunc(changed, func(_ key, now *unstructured.Unstructured) bool {
		if now == nil {
			return true
		}
		planned, err := strconv.ParseUint(now.GetResourceVersion(), 10, 64)
		return err == nil && planned > exact
	})
	return changed
}

// The order is an API server's.
func (c call) list() (*http.Response, error) {
	s, err := c.selection()
	if err != nil {
		return c.badRequest(err).response(c.request), nil
	}
	list, a, err := c.storedList()
	if err != nil {
		return nil, err
	}
	if a.failed() {
		return a.response(c.request), nil
	}
	changed := c.changedAt(c.overlay.changedOf(c.info))
	if len(changed) == 0 && list.Items != nil {
		return a.response(c.request), nil
	}
	items, err := unchangedItems(list.Items, c.info.resource.GroupResource(), changed)
	if err != nil {
		return nil, err
	}
	for k, now := range changed {
		if list.Metadata.Continue != "" || now == nil || !s.matches(k, now) {
			continue
		}
		raw, err := c.inVersion(now).MarshalJSON()
		if err != nil {
			return nil, err
		}
		items = append(items, listItem{k, raw})
	}
	slices.SortFunc(items, func(a, b listItem) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	list.Items = make([]json.RawMessage, len(items))
	for i, item := range items {
		list.Items[i] = item.raw
	}
	if a.raw, err = json.Marshal(list); err != nil {
		return nil, err
	}
	return a.response(c.request), nil
}

type rawList struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ListMeta   `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

type listItem struct {
	key
	raw json.RawMessage
}

// The API server has no collection of a kind that is only planned.
func (c call) storedList() (list rawList, a answer, err error) {
	if kind := c.overlay.installedKind(c.info.resource); kind != nil {
		return rawList{APIVersion: c.info.resource.GroupVersion().String(), Kind: kind.list}, answer{code: http.StatusOK}, nil
	}
	a, err = c.send(c.request.Context(), http.MethodGet, c.request.URL.Path, c.query(), "", nil)
	if err != nil || a.failed() {
		return rawList{}, a, err
	}
	if err := json.Unmarshal(a.raw, &list); err != nil {
		return rawList{}, a, err
	}
	c.overlay.observeRevision(list.Metadata.ResourceVersion)
	return list, a, nil
}

// Items that the plan changes are left out.
func unchangedItems(all []json.RawMessage, of schema.GroupResource, changed map[key]*unstructured.Unstructured) ([]listItem, error) {
	items := make([]listItem, 0, len(all))
	for _, raw := range all {
		var o struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		k := key{of.Group, of.Resource, o.Metadata.Namespace, o.Metadata.Name}
		if _, isChanged := changed[k]; !isChanged {
			items = append(items, listItem{k, raw})
		}
	}
	return items, nil
}
