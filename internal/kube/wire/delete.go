package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ConfirmedDelete deletes an object as the dynamic client does, and reports whether the answer says that the
// incarnation with the UID in the preconditions is gone. An object that waits for finalizers or for the end of its
// grace period is not, and for some kinds the API server doesn't say it. The namespace is empty for cluster-scoped
// objects.
func (c *Client) ConfirmedDelete(ctx context.Context, of schema.GroupVersionResource, namespace, name string,
	options metav1.DeleteOptions) (gone bool, err error) {
	options.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions"} // as the dynamic client sends it
	body, err := json.Marshal(options)
	if err != nil {
		return false, fmt.Errorf("encode the options of a deletion: %w", err)
	}
	request := c.rest.Delete().AbsPath(segments(of, namespace, name)...).SetHeader("Content-Type", runtime.ContentTypeJSON)
	result := request.Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return false, err
	}
	var code int
	result.StatusCode(&code)
	answer, err := result.Raw()
	if err != nil || options.Preconditions == nil || options.Preconditions.UID == nil {
		return false, err
	}
	return code == http.StatusOK && saysGone(answer, *options.Preconditions.UID), nil
}

func segments(of schema.GroupVersionResource, namespace, name string) []string {
	path := []string{"apis", of.Group, of.Version}
	if of.Group == "" {
		path = []string{"api", of.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, of.Resource, name)
}

// An API server that has removed the object answers a deletion with the Status with its UID. It answers with the object
// if that stays for now, and for some kinds always.
func saysGone(answer []byte, uid types.UID) bool {
	var status struct {
		metav1.TypeMeta `json:",inline"`
		// Status is an object in other kinds.
		Status  any
		Details struct{ UID types.UID }
	}
	if json.Unmarshal(answer, &status) != nil {
		return false
	}
	return status.APIVersion == "v1" && status.Kind == "Status" && status.Status == metav1.StatusSuccess && uid != "" && status.Details.UID == uid
}
