package access

import "github.com/gantry-agents/gantry/libs/errdefs"

// The reasons of refusals, in domain gantry.common.v1.
const (
	// ReasonUndeclared: the method says nowhere who may call it.
	ReasonUndeclared = "ACCESS_UNDECLARED"
	// ReasonCredentialMissing: the method needs a credential and the call has none.
	ReasonCredentialMissing = "CREDENTIAL_MISSING"
	// ReasonCredentialInvalid: the credential does not verify.
	ReasonCredentialInvalid = "CREDENTIAL_INVALID"
	// ReasonCredentialExpired: the credential was good once.
	ReasonCredentialExpired = "CREDENTIAL_EXPIRED"
	// ReasonAudience: the method is for other services only.
	ReasonAudience = "ACCESS_INTERNAL"
	// ReasonVerbMissing: the grant lacks a verb that the call needs.
	ReasonVerbMissing = "VERB_MISSING"
	// ReasonPathDenied: the path lies outside of the grant's prefixes.
	ReasonPathDenied = "PATH_DENIED"
	// ReasonIdentityMismatch: the metadata names another identity than the credential.
	ReasonIdentityMismatch = "IDENTITY_MISMATCH"
)

func denied(reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(errdefs.ErrPermissionDenied, errdefs.DomainCommon, reason, format, args...)
}

func unauthenticated(reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(errdefs.ErrUnauthenticated, errdefs.DomainCommon, reason, format, args...)
}
