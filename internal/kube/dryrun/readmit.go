package dryrun

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const readmitPage = 500

// readmit shows the objects of a changed kind as the API server would read them with its new definition: without fields
// that the schema has lost, and with new defaults, although nobody writes them.
func (c call) readmit(kind *plannedKind, resource schema.GroupResource) error {
	if kind.definition == nil {
		return nil
	}
	for _, v := range kind.definition.Spec.Versions {
		if !v.Storage {
			continue
		}
		at := requestInfo{resource: resource.WithVersion(v.Name)}
		a := kind.admissionOf(v.Name)
		if a == nil {
			return nil
		}
		hasStatus := v.Subresources != nil && v.Subresources.Status != nil
		return c.eachStored(at, func(o *unstructured.Unstructured) {
			e := c.overlay.entry(key{resource.Group, resource.Resource, o.GetNamespace(), o.GetName()})
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.written && (e.planned == nil || e.planned.GetAPIVersion() != o.GetAPIVersion()) {
				return
			}
			current := o
			if e.written {
				current = e.planned
			}
			read, _ := a.Admit(current, current)
			if reflect.DeepEqual(read.Object, current.Object) {
				return
			}
			if !e.written {
				e.stored, e.resource, e.hasStatus = o, at.resource, hasStatus
			}
			c.overlay.setPlanned(e, read)
		})
	}
	return nil
}

// Objects that must not be read are left out.
func (c call) eachStored(at requestInfo, each func(*unstructured.Unstructured)) error {
	next := ""
	for {
		q := url.Values{"limit": {strconv.Itoa(readmitPage)}}
		if next != "" {
			q.Set("continue", next)
		}
		a, err := c.send(c.request.Context(), http.MethodGet, at.path(), q, "", nil)
		if err != nil || a.failed() {
			return err // what cannot be read is shown as it is stored
		}
		var list struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(a.raw, &list); err != nil {
			return err
		}
		c.overlay.observeRevision(list.Metadata.ResourceVersion)
		for _, raw := range list.Items {
			o := &unstructured.Unstructured{}
			if err := o.UnmarshalJSON(raw); err != nil {
				return err
			}
			each(o)
		}
		if next = list.Metadata.Continue; next == "" {
			return nil
		}
	}
}
