// The part of the ABI of Envoy's dynamic modules that the filter uses, version 0.2.0 (Envoy 1.40), in declarations of
// its own, and the functions that Go calls. Envoy's source/extensions/dynamic_modules/abi/abi.h is the reference.

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_ABI "v0.2.0"

typedef struct {
	const char *ptr;
	size_t length;
} buffer;

// header is also what the ABI calls a pair of key and value.
typedef struct {
	const char *name;
	size_t name_length;
	const char *value;
	size_t value_length;
} header;

enum { request_headers = 0, response_headers = 2, response_trailers = 3 };
enum { response_code_details = 16, source_address = 24, dns_san_of_peer = 35, uri_san_of_peer = 37, route_name = 61 };
enum { go_on = 0, wait_for_verdict = 4 }; // statuses of request headers: Continue, StopAllIterationAndWatermark
enum { callout_made = 0 };
enum { received_response_body = 2 };
enum { dynamic_metadata = 0 }; // a source of metadata
enum { counter, gauge, histogram }; // kinds of metrics

// What Envoy exports. All are weak, so that the module can tell which one an Envoy lacks.
#define WEIR_CALLBACKS(f) \
	f(void, log, (uint32_t level, buffer message)) \
	f(uint32_t, get_concurrency, (void)) \
	f(bool, register_function, (buffer key, void *function)) \
	f(uint32_t, http_filter_get_worker_index, (void *filter)) \
	f(bool, http_get_header, (void *filter, int headers, buffer name, buffer *value, size_t index, size_t *count)) \
	f(size_t, http_get_headers_size, (void *filter, int headers)) \
	f(bool, http_get_headers, (void *filter, int headers, header *all)) \
	f(bool, http_add_header, (void *filter, int headers, buffer name, buffer value)) \
	f(bool, http_set_header, (void *filter, int headers, buffer name, buffer value)) \
	f(size_t, http_get_body_chunks_size, (void *filter, int body)) \
	f(bool, http_get_body_chunks, (void *filter, int body, buffer *chunks)) \
	f(void, http_send_response, (void *filter, uint32_t status, header *headers, size_t count, buffer body, buffer details)) \
	f(bool, http_set_filter_state_bytes, (void *filter, buffer name, buffer value)) \
	f(void, http_set_dynamic_metadata_string_batch, (void *filter, buffer space, const header *all, size_t count)) \
	f(bool, http_get_metadata_string, (void *filter, int source, buffer space, buffer key, buffer *value)) \
	f(bool, http_get_metadata_number, (void *filter, int source, buffer space, buffer key, double *value)) \
	f(bool, http_get_metadata_bool, (void *filter, int source, buffer space, buffer key, bool *value)) \
	f(size_t, http_get_metadata_keys_count, (void *filter, int source, buffer space)) \
	f(bool, http_get_metadata_keys, (void *filter, int source, buffer space, buffer *keys)) \
	f(void *, http_get_active_span, (void *filter)) \
	f(bool, http_span_get_trace_id, (void *span, buffer *id)) \
	f(bool, http_span_get_span_id, (void *span, buffer *id)) \
	f(bool, http_filter_get_attribute_string, (void *filter, int attribute, buffer *value)) \
	f(void, http_filter_continue_decoding, (void *filter)) \
	f(void *, http_filter_scheduler_new, (void *filter)) \
	f(void, http_filter_scheduler_commit, (void *scheduler, uint64_t event)) \
	f(void, http_filter_scheduler_delete, (void *scheduler)) \
	f(void *, http_filter_config_scheduler_new, (void *config)) \
	f(void, http_filter_config_scheduler_commit, (void *scheduler, uint64_t event)) \
	f(void, http_filter_config_scheduler_delete, (void *scheduler)) \
	f(int, http_filter_config_http_callout, (void *config, uint64_t *id, buffer cluster, header *headers, size_t count, buffer body, uint64_t timeout_ms)) \
	f(int, http_filter_config_define_counter, (void *config, buffer name, buffer *labels, size_t count, size_t *id)) \
	f(int, http_filter_config_define_gauge, (void *config, buffer name, buffer *labels, size_t count, size_t *id)) \
	f(int, http_filter_config_define_histogram, (void *config, buffer name, buffer *labels, size_t count, size_t *id)) \
	f(int, http_filter_config_increment_counter, (void *config, size_t id, buffer *values, size_t count, uint64_t n)) \
	f(int, http_filter_config_set_gauge, (void *config, size_t id, buffer *values, size_t count, uint64_t n)) \
	f(int, http_filter_config_record_histogram_value, (void *config, size_t id, buffer *values, size_t count, uint64_t n))

#define WEIR_DECLARE(result, name, arguments) \
	extern result envoy_dynamic_module_callback_##name arguments __attribute__((weak));
WEIR_CALLBACKS(WEIR_DECLARE)

// Go calls nothing of Envoy for a request: it leaves a list of tasks, each with two texts behind it, which C does when the
// hook of Go has returned, or at the response. So Envoy destroys no stream while Go holds a lock.
enum {
	set_state,    // filter state: name, value
	set_metadata, // of the namespace weir: name, value
	respond_with, // headers of the filter's own response: nothing, a serialised map
	respond,      // the filter's own response: details, body
	add_header,   // to the response of the upstream: name, value
	set_header,   // the same, in the place of others of that name
};

typedef struct {
	uint32_t what, first, second; // the sizes of its texts
} task;

// stream is the filter of one request. Only Envoy's thread of that request touches it; scheduler also those that hold the
// mutex of its worker.
typedef struct {
	void *filter;     // Envoy's
	void *scheduler;  // of a request that waits, or has waited
	uint32_t worker;  // of Go, by its number
	uint32_t id;      // among those of its worker
	uint32_t holds;   // hooks that run, and Envoy itself
	bool kept;        // Go has to know of its response and end
	bool reads;       // and of the body of its response
	uint32_t status;  // of the filter's own response; 0: there is none
	uint32_t size, room; // of tasks
	char *tasks;
	char few[512]; // where tasks are unless they need more
} stream;

// config is a configuration of the filter.
typedef struct {
	uintptr_t go; // a handle
	uint32_t workers;
	struct {
		uint32_t go;    // a number
		uint32_t last;  // id of a stream
		char apart[56]; // each thread has a cache line of its own
	} worker[];
} config;

config *weir_config_new(uint32_t workers);
void weir_set_worker(config *c, uint32_t i, uint32_t go);
const char *weir_missing(void);
bool weir_is_only_copy(void);
void weir_log(uint32_t level, const char *text, size_t length);
bool weir_grow(stream *s, uint32_t size);
size_t weir_response_header(void *filter, int headers, const char *name, size_t length, char *into, size_t most, bool *found);
size_t weir_attribute(void *filter, int attribute, char *into, size_t most, bool *found);
size_t weir_metadata(void *filter, const char *space, size_t space_length, const char *key, size_t key_length, char *into, size_t most,
	bool *found, int *kind);
bool weir_span(void *filter, char ids[48]);
bool weir_call(void *config, uint64_t *id, const char *cluster, size_t cluster_length, const char *headers, size_t size,
	const char *body, size_t body_length, uint64_t timeout_ms);
size_t weir_define(void *config, int kind, const char *name, size_t name_length, const char *labels, size_t count);
void weir_record(void *config, int kind, size_t id, const char *values, size_t count, uint64_t v);
