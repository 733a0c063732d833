/** Style sheets are imported for what they do; the builder takes them out of the code. */
declare module "*.css";
