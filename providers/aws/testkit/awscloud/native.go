package awscloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// caller is on behalf of what account and where a native API is called. The implementation checks no signatures.
type caller struct {
	base   string
	client *http.Client
	// accessKey selects the account, region the region.
	accessKey, region string
	// sessionToken is of temporary credentials.
	sessionToken string
}

// credential finds the access key, region and service in an Authorization header.
var credential = regexp.MustCompile(`Credential=([^/, ]+)/\d+/([^/]*)/([^/, ]+)/`)

// callerOf returns the caller of a request, and the service that it is signed for.
func (c *Cloud) callerOf(r *http.Request) (caller, string) {
	from := caller{base: c.backend, client: c.client, accessKey: "test", region: c.region,
		sessionToken: r.Header.Get("X-Amz-Security-Token")}
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		from.accessKey, from.region = m[1], m[2]
		return from, m[3]
	}
	return from, ""
}

// nativeError is an error that a native API answered with.
type nativeError struct {
	status        int
	code, message string
}

func (e *nativeError) Error() string { return fmt.Sprintf("%s: %s", e.code, e.message) }

// isNotFound reports whether a native API said that something does not exist.
func isNotFound(err error) bool {
	e, ok := err.(*nativeError) //nolint:errorlint // send returns it as it is
	if !ok {
		return false
	}
	for _, part := range []string{"NotFound", "NoSuch", "NonExistent", "DoesNotExist"} {
		if strings.Contains(e.code, part) {
			return true
		}
	}
	return e.status == http.StatusNotFound || strings.Contains(e.message, "not found")
}

// query calls an API of the query protocol, such as EC2, IAM, RDS and CloudFormation. It returns the answer's root.
func (c caller) query(ctx context.Context, service, action string, parameters map[string]string) (*node, error) {
	form := url.Values{"Action": {action}, "Version": {versions[service]}}
	for name, value := range parameters {
		form.Set(name, value)
	}
	return c.send(ctx, service, http.MethodPost, "/", "application/x-www-form-urlencoded", "", []byte(form.Encode()))
}

var versions = map[string]string{
	"cloudformation": "2010-05-15", "ec2": "2016-11-15", "iam": "2010-05-08", "rds": "2014-10-31", "sts": "2011-06-15",
	"sns": "2010-03-31", "elasticloadbalancing": "2015-12-01", "elasticache": "2015-02-02", "autoscaling": "2011-01-01",
}

// call calls an API of the JSON protocol, such as DynamoDB and KMS.
func (c caller) call(ctx context.Context, service, target string, input any) (*node, error) {
	body, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, service, http.MethodPost, "/", "application/x-amz-json-1.1", target, body)
}

// rest calls an API of the REST protocols, such as S3, EKS and CloudFront.
func (c caller) rest(ctx context.Context, service, method, path string, body ...byte) (*node, error) {
	return c.send(ctx, service, method, path, "", "", body)
}

func (c caller) send(ctx context.Context, service, method, path, contentType, target string,
	body []byte) (*node, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", fmt.Sprintf(
		"AWS4-HMAC-SHA256 Credential=%s/20260101/%s/%s/aws4_request, SignedHeaders=host, Signature=0", c.accessKey, c.region, service))
	for name, value := range map[string]string{"Content-Type": contentType, "X-Amz-Target": target,
		"X-Amz-Security-Token": c.sessionToken} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	n, parseErr := parseNode(raw)
	if response.StatusCode < 300 {
		return n, parseErr
	}
	return nil, errorOf(response, n, raw)
}

func errorOf(response *http.Response, n *node, raw []byte) *nativeError {
	e := &nativeError{status: response.StatusCode}
	if n == nil {
		e.code, e.message = response.Status, string(raw)
		return e
	}
	for _, at := range []*node{n.get("Error"), n.get("Errors", "Error"), n} {
		for _, name := range []string{"Code", "__type", "code"} {
			if e.code == "" {
				e.code = at.get(name).text
			}
		}
		for _, name := range []string{"Message", "message"} {
			if e.message == "" {
				e.message = at.get(name).text
			}
		}
	}
	if kind := response.Header.Get("X-Amzn-Errortype"); e.code == "" {
		e.code = kind
	}
	if e.code == "" {
		e.code = response.Status
	}
	if i := strings.LastIndexAny(e.code, "#"); i >= 0 {
		e.code = e.code[i+1:]
	}
	return e
}
