"use strict";

// Everything is relative to the page, so that it works behind a proxy that adds a path, too.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  validatorUrl: null, // it would send the description elsewhere
  persistAuthorization: false, // a token is not kept when the page goes
});
