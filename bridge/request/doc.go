// Package request serves what clients and other instances ask for over NATS.
//
//	client ──▶ tarry.<namespace>.api.*, read.*, admin.* ──▶ Service ──▶ scheduler
//	                                                           └──▶ the calls of HTTP, for read.* and admin.*
//	instance ──▶ tarry.<namespace>.nudge  ──▶ Nudge    all instances: a message is due earlier than all others
//	         ──▶ tarry.<namespace>.pauses ──▶ Pauses   the leader: read the pauses again
//	         ──▶ tarry.<namespace>.resign ──▶ Resign   the leader: resign
//	         ──▶ tarry.<namespace>.peers  ──▶ Peers    all others: what each of them alone knows
//
// peers.go has the rules by which a message counts as a request, and where it may be answered.
package request
