package dryrun

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// get answers with the planned object.
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

// inVersion returns the object in the requested version.
func (c call) inVersion(o *unstructured.Unstructured) *unstructured.Unstructured {
	return c.overlay.converted(c.info.resource.GroupResource(), o, c.info.resource.GroupVersion())
}

// selection is the part of a collection that a request selects.
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

func (s selection) matches(k key, o *unstructured.Unstructured) bool {
	return k.group == s.info.resource.Group && k.resource == s.info.resource.Resource &&
		(s.info.namespace == "" || s.info.namespace == k.namespace) && s.labels.Matches(labels.Set(o.GetLabels())) &&
		s.fields.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
}

// changedAt are the planned objects as of the resource version that a request names exactly. Of a planned object only the
// last state is known: before that, the object counts as the server has it.
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

// list answers with the planned collection.
func (c call) list() (*http.Response, error) {
	s, err := c.selection()
	if err != nil {
		return nil, err
	}
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ListMeta   `json:"metadata"`
		Items      []json.RawMessage `json:"items"`
	}
	var a answer
	if kind := c.overlay.installedKind(c.info.resource); kind != nil {
		a.code, list.APIVersion, list.Kind = http.StatusOK, c.info.resource.GroupVersion().String(), kind.list
	} else {
		a, err = c.send(c.request.Context(), http.MethodGet, c.request.URL.Path, c.query(), "", nil)
		switch {
		case err != nil:
			return nil, err
		case a.failed():
			return a.response(c.request), nil
		}
		if err := json.Unmarshal(a.raw, &list); err != nil {
			return nil, err
		}
		c.overlay.observeRevision(list.Metadata.ResourceVersion)
	}
	changed := c.changedAt(c.overlay.changedOf(c.info))
	if len(changed) == 0 && list.Items != nil {
		return a.response(c.request), nil
	}
	items := make([]json.RawMessage, 0, len(list.Items))
	for _, raw := range list.Items {
		var o struct {
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		if _, isChanged := changed[key{c.info.resource.Group, c.info.resource.Resource, o.Metadata.Namespace, o.Metadata.Name}]; !isChanged {
			items = append(items, raw)
		}
	}
	for k, now := range changed {
		if list.Metadata.Continue != "" || now == nil || !s.matches(k, now) {
			continue
		}
		raw, err := c.inVersion(now).MarshalJSON()
		if err != nil {
			return nil, err
		}
		items = append(items, raw)
	}
	list.Items = items
	if a.raw, err = json.Marshal(list); err != nil {
		return nil, err
	}
	return a.response(c.request), nil
}
