package awscloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// apiError is an error that the Cloud Control API answers with.
type apiError struct{ code, message string }

func (e *apiError) Error() string { return e.code + ": " + e.message }

// input is the input of any operation of the Cloud Control API.
type input struct {
	TypeName, Identifier, ClientToken, RequestToken string
	DesiredState, PatchDocument, RoleArn            string
	TypeVersionID                                   string `json:"TypeVersionId"`
	ResourceModel, NextToken                        string
	MaxResults                                      int
	Filter                                          struct {
		Operations        []string
		OperationStatuses []string
	} `json:"ResourceRequestStatusFilter"`

	account string
	from    caller
	outcome *Outcome
}

// ServeHTTP records a call, applies a fault, and answers: the Cloud Control API here, all others by the
// implementation.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	operation, isCloudControl := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "CloudApiService.")
	from, signedFor := c.callerOf(r)
	call := Call{Service: signedFor, Operation: operation, AccessKey: from.accessKey}
	var in input
	if isCloudControl {
		if err := json.Unmarshal(body, &in); err != nil {
			answerError(w, &Error{Code: "SerializationException", Message: err.Error()})
			return
		}
		call.Type, call.Identifier, call.Token, call.Body = in.TypeName, in.Identifier, in.ClientToken, body
		if in.RequestToken != "" {
			call.Identifier, call.Type = in.RequestToken, c.typeOfRequest(in.RequestToken)
		}
	} else {
		call.Operation = nativeOperation(r, body)
	}
	c.record(call)

	fault := c.faultFor(call)
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-r.Context().Done():
		case <-c.ctx.Done():
		}
	}
	if fault.LoseRequest {
		panic(http.ErrAbortHandler)
	}
	if fault.Error != nil {
		answerError(w, fault.Error)
		return
	}
	answer := w
	if fault.LoseAnswer {
		answer = discard{header: http.Header{}}
	}
	if isCloudControl {
		in.from, in.outcome = from, fault.Outcome
		c.answer(answer, r, operation, in)
	} else {
		c.proxy.ServeHTTP(answer, r)
	}
	if fault.LoseAnswer {
		panic(http.ErrAbortHandler)
	}
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func nativeOperation(r *http.Request, body []byte) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndex(target, ".")+1:]
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
			return form.Get("Action")
		}
	}
	return r.Method + " " + r.URL.Path
}

func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, operation string, in input) {
	answer, err := func() (any, error) {
		account, err := c.accountOf(r.Context(), in.from)
		if err != nil {
			return nil, err
		}
		in.account = account
		switch operation {
		case CreateResource:
			return c.create(in)
		case GetResource:
			return c.read(r.Context(), in)
		case UpdateResource:
			return c.update(r.Context(), in)
		case DeleteResource:
			return c.delete(in)
		case ListResources:
			return c.list(r.Context(), in)
		case GetResourceRequestStatus:
			return c.status(in)
		case ListResourceRequests:
			return c.listRequests(in)
		case CancelResourceRequest:
			return c.cancelRequest(in)
		default:
			return nil, &apiError{"UnknownOperationException", fmt.Sprintf("There is no operation %q.", operation)}
		}
	}()
	if e := (*apiError)(nil); errors.As(err, &e) {
		answerError(w, &Error{Code: e.code, Message: e.message})
		return
	}
	if err != nil {
		answerError(w, &Error{Status: http.StatusInternalServerError, Code: "ServiceInternalErrorException",
			Message: err.Error()})
		return
	}
	write(w, http.StatusOK, answer)
}

func answerError(w http.ResponseWriter, e *Error) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	write(w, status, map[string]string{"__type": "com.amazon.cloudapiservice#" + e.Code, "Message": e.Message})
}

func write(w http.ResponseWriter, status int, answer any) {
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(err) // Answers consist of strings and numbers.
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // The caller may be gone.
}
